#include "bindings/cli/bench_subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>
#include <numeric>

#include "bindings/cli/api.h"
#include "bindings/cli/command.h"
#include "bindings/cli/pattern.h"
#include "core/base/assert.h"

namespace lockstep::cli {
namespace {

constexpr std::align_val_t kPage{4096};

// The first tag of calls in flight, one tag each. Agreements between measurements use smaller tags.
constexpr std::uint64_t kFirstTag = 16;

// The value from 0 to `last` with this name. Invariant: the parser has validated the name.
template <typename T>
T named(std::string_view name, const char* (*name_of)(T), T last) {
  for (int number = 0; number <= last; ++number) {
    if (name == name_of(static_cast<T>(number))) return static_cast<T>(number);
  }
  LOCKSTEP_UNREACHABLE();
}

// The largest error of one rounding to this format, as a fraction of the largest element.
double step_of(lockstep_wire_format format) {
  switch (format) {
    case LOCKSTEP_WIRE_NATIVE: return 0;
    case LOCKSTEP_WIRE_BF16: return 1.0 / 256;
    case LOCKSTEP_WIRE_F16: return 1.0 / 2048;
    case LOCKSTEP_WIRE_INT8:
    case LOCKSTEP_WIRE_INT8_MIN_MAX: return 1.0 / 254;
    case LOCKSTEP_WIRE_INT8_CODEBOOK: return 0.5;  // larger than its bins, smaller than an error of the library
    case LOCKSTEP_WIRE_INT4: return 1.0 / 14;
    case LOCKSTEP_WIRE_E3M0: return 1.0 / 3;
  }
  return 0;
}

// Divides `count` elements among so many tensors as in a transformer: an embedding, then alternately matrices and
// vectors, whose size is a thousandth of a matrix.
std::vector<std::uint64_t> sizes_of_tensors(std::uint64_t count, std::uint32_t tensors) {
  constexpr std::uint64_t kEmbedding = 40'000;
  constexpr std::array<std::uint64_t, 4> kMatrices = {3000, 1000, 4000, 4000};
  constexpr std::uint64_t kVector = 3;
  std::vector<std::uint64_t> parts;
  for (std::uint32_t i = 0; i < tensors; ++i) {
    parts.push_back(i == 0 ? kEmbedding : i % 2 == 0 ? kVector : kMatrices[i / 2 % kMatrices.size()]);
  }
  const std::uint64_t all = std::accumulate(parts.begin(), parts.end(), std::uint64_t{0});
  std::vector<std::uint64_t> sizes;
  std::uint64_t left = count;
  for (const std::uint64_t part : parts) {
    sizes.push_back(std::min(left, count / all * part + count % all * part / all));
    left -= sizes.back();
  }
  sizes.front() += left;
  return sizes;
}

}  // namespace

BenchSubject::Memory::Memory(std::size_t bytes)
    : data_(static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), kPage))), bytes_(bytes) {
  std::fill_n(data_.get(), bytes, std::byte{0});
}

void BenchSubject::Memory::Delete::operator()(std::byte* p) const { ::operator delete(p, kPage); }

BenchSubject::Collective BenchSubject::collective_of(std::string_view name) {
  if (name == "reduce") return Collective::kReduce;
  if (name == "reduce_scatter") return Collective::kReduceScatter;
  if (name == "all_gather") return Collective::kAllGather;
  if (name == "broadcast") return Collective::kBroadcast;
  if (name == "barrier") return Collective::kBarrier;
  if (name == "sync_state") return Collective::kSyncState;
  if (name == "send") return Collective::kSend;
  return Collective::kAllReduce;
}

BenchSubject::BenchSubject(const BenchOptions& options, lockstep_comm* comm, std::uint32_t rank, std::uint32_t world)
    : options_(options),
      comm_(comm),
      rank_(rank),
      world_(world),
      collective_(collective_of(options.collective)),
      type_(named(options.type, lockstep_data_type_name, LOCKSTEP_BOOL)),
      op_(named(options.op, lockstep_op_name, LOCKSTEP_BXOR)),
      up_(named(options.encoding.up, lockstep_wire_format_name, LOCKSTEP_WIRE_E3M0)),
      down_(named(options.encoding.down, lockstep_wire_format_name, LOCKSTEP_WIRE_E3M0)),
      algorithm_(named(options.encoding.algorithm, lockstep_algorithm_name, LOCKSTEP_ALGORITHM_GRID)),
      element_(lockstep_data_type_size(type_)),
      members_(world),
      slots_(options.in_flight) {
  std::size_t members = 0;
  check(lockstep_member_ids(comm_, 0, members_.data(), members_.size(), &members, nullptr), "members");
}

bool BenchSubject::works_out_of_place() const { return collective_ != Collective::kBroadcast && !is_sync(); }

bool BenchSubject::works_in_place() const {
  return collective_ != Collective::kReduce && collective_ != Collective::kReduceScatter &&
         collective_ != Collective::kBarrier && !is_send();
}

bool BenchSubject::folds() const {
  return collective_ == Collective::kAllReduce || collective_ == Collective::kReduce ||
         collective_ == Collective::kReduceScatter;
}

double BenchSubject::bus_factor() const {
  const double n = world_;
  switch (collective_) {
    case Collective::kAllReduce: return 2 * (n - 1) / n;
    case Collective::kReduceScatter:
    case Collective::kAllGather: return (n - 1) / n;
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kSyncState:
    case Collective::kSend: return 1;
    case Collective::kBarrier: return 0;
  }
  return 0;
}

// ---- memory ----

void BenchSubject::resize(std::uint64_t bytes) {
  count_ = bytes / element_;
  if (collective_ == Collective::kAllGather) count_ = count_ / world_ * world_;
  for (Slot& slot : slots_) {
    slot.recv.emplace(this->bytes());
    if (works_out_of_place() && has_size()) slot.send.emplace(this->bytes());
    if (options_.encoding.residual) slot.residual.emplace(this->bytes());
  }
}

void BenchSubject::drop_memory_to_send() {
  for (Slot& slot : slots_) slot.send.reset();
}

void BenchSubject::drop_memory() {
  for (Slot& slot : slots_) slot = {};
}

void BenchSubject::spoil() {
  for (const Slot& slot : slots_) std::fill_n(slot.recv->data(), slot.recv->size(), std::byte{0xa5});
}

void BenchSubject::prepare(Place place) {
  const Pattern pattern(type_, op_, world_);
  spoil();
  for (Slot& slot : slots_) {
    if (slot.residual) std::ranges::fill(slot.residual->span(bytes()), std::byte{0});
    const Memory& from = place == Place::kOut && slot.send ? *slot.send : *slot.recv;
    switch (collective_) {
      case Collective::kAllReduce:
      case Collective::kReduce:
      case Collective::kReduceScatter:
      case Collective::kBroadcast:
      case Collective::kSend: pattern.fill(from.span(bytes()), rank_); break;
      case Collective::kAllGather: {
        const std::uint64_t own = bytes() / world_;
        pattern.fill(from.span(bytes()).subspan(place == Place::kIn ? rank_ * own : 0, own), rank_);
        break;
      }
      case Collective::kSyncState:
        if (!is_newcomer()) pattern.fill(from.span(bytes()), 0);
        break;
      case Collective::kBarrier: break;
    }
    if (options_.tensors > 1) cut(slot, place);
  }
}

void BenchSubject::cut(Slot& slot, Place place) const {
  std::byte* recv = slot.recv->data();
  std::byte* const from = place == Place::kIn ? recv : slot.send->data();
  std::byte* send = from;
  slot.tensors.clear();
  slot.residuals.clear();
  for (const std::uint64_t count : sizes_of_tensors(count_, options_.tensors)) {
    if (slot.residual) slot.residuals.push_back(slot.residual->data() + (send - from));
    slot.tensors.push_back({send, recv, count});
    send += count * element_;
    recv += count * element_;
  }
}

// ---- calls ----

lockstep_result BenchSubject::call(Place place) {
  const auto one_way = [this](bool sends) {
    return in_all_slots([this, sends](auto... slot) { return issue_one_way(sends, slot...); });
  };
  if (is_send()) {  // the first of each pair sends, and the second one answers
    const bool begins = rank_ % 2 == 0;
    one_way(begins);
    return one_way(!begins);
  }
  return in_all_slots([this, place](auto... slot) { return issue(place, slot...); });
}

template <typename Issue>
lockstep_result BenchSubject::in_all_slots(Issue&& issue) {
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  result.rates = rates_.data();
  result.rates_capacity = rates_.size();
  if (slots_.size() == 1) {
    must_be_whole(issue(std::size_t{0}, &result, static_cast<lockstep_work**>(nullptr)), result);
    return result;
  }
  std::vector<lockstep_work*> works(slots_.size());
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    check(issue(i, static_cast<lockstep_result*>(nullptr), &works[i]), options_.collective);
  }
  for (lockstep_work* const work : works) {
    const lockstep_status status = lockstep_wait(work, LOCKSTEP_FOREVER, &result);
    lockstep_work_free(work);
    must_be_whole(status, result);
  }
  return result;
}

lockstep_status BenchSubject::issue_one_way(bool sends, std::size_t index, lockstep_result* result,
                                            lockstep_work** work) {
  const Slot& slot = slots_[index];
  const auto start = [&](auto blocking, auto asynchronous, auto args) {
    args.count = count_;
    args.type = type_;
    args.tag = kFirstTag + index;
    return work == nullptr ? blocking(comm_, &args, result) : asynchronous(comm_, &args, work);
  };
  if (sends) {
    lockstep_send_args args = LOCKSTEP_SEND_ARGS_INIT;
    args.data = slot.send->data();
    args.to = members_[partner()];
    return start(lockstep_send, lockstep_send_async, args);
  }
  lockstep_recv_args args = LOCKSTEP_RECV_ARGS_INIT;
  args.data = slot.recv->data();
  args.from = members_[partner()];
  return start(lockstep_recv, lockstep_recv_async, args);
}

lockstep_status BenchSubject::issue(Place place, std::size_t index, lockstep_result* result, lockstep_work** work) {
  const Slot& slot = slots_[index];
  const auto start = [&](auto blocking, auto asynchronous, auto args) {
    args.tag = kFirstTag + index;
    return work == nullptr ? blocking(comm_, &args, result) : asynchronous(comm_, &args, work);
  };
  switch (collective_) {
    case Collective::kAllReduce:
      return start(lockstep_all_reduce, lockstep_all_reduce_async, all_reduce_args(place, slot));
    case Collective::kReduce: return start(lockstep_reduce, lockstep_reduce_async, reduce_args(place, slot));
    case Collective::kReduceScatter:
      return start(lockstep_reduce_scatter, lockstep_reduce_scatter_async, reduce_scatter_args(place, slot));
    case Collective::kAllGather:
      return start(lockstep_all_gather, lockstep_all_gather_async, all_gather_args(place, slot));
    case Collective::kBroadcast: return start(lockstep_broadcast, lockstep_broadcast_async, broadcast_args(slot));
    case Collective::kBarrier: {
      const lockstep_barrier_args args = LOCKSTEP_BARRIER_ARGS_INIT;
      return start(lockstep_barrier, lockstep_barrier_async, args);
    }
    case Collective::kSyncState: {
      lockstep_state_tensor tensor{};
      tensor.name = "state";
      tensor.data = slot.recv->data();
      tensor.count = count_;
      tensor.type = type_;
      lockstep_sync_state_args args = LOCKSTEP_SYNC_STATE_ARGS_INIT;
      args.tensors = &tensor;
      args.tensors_count = 1;
      args.strategy = is_newcomer() ? LOCKSTEP_STATE_RECEIVE_ONLY : LOCKSTEP_STATE_POPULAR;
      args.blank = is_newcomer() ? 1 : 0;
      return start(lockstep_sync_state, lockstep_sync_state_async, args);
    }
    case Collective::kSend: break;  // issue_one_way() makes these calls
  }
  return LOCKSTEP_ERR_INVALID_ARGUMENT;
}

std::byte* BenchSubject::send_of(Place place, const Slot& slot) {
  return place == Place::kOut && slot.send ? slot.send->data() : slot.recv->data();
}

lockstep_all_reduce_args BenchSubject::all_reduce_args(Place place, const Slot& slot) const {
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  if (slot.tensors.empty()) {
    args.send = send_of(place, slot);
    args.recv = slot.recv->data();
    args.count = count_;
    args.residual = slot.residual ? slot.residual->data() : nullptr;
  } else {
    args.tensors = slot.tensors.data();
    args.residuals = slot.residuals.empty() ? nullptr : slot.residuals.data();
    args.tensors_count = slot.tensors.size();
  }
  args.type = type_;
  args.op = op_;
  args.up = up_;
  args.down = down_;
  args.algorithm = algorithm_;
  return args;
}

lockstep_reduce_args BenchSubject::reduce_args(Place place, const Slot& slot) const {
  lockstep_reduce_args args = LOCKSTEP_REDUCE_ARGS_INIT;
  args.send = send_of(place, slot);
  args.recv = is_root() ? slot.recv->data() : nullptr;
  args.count = count_;
  args.root = members_.front();
  args.type = type_;
  args.op = op_;
  return args;
}

lockstep_reduce_scatter_args BenchSubject::reduce_scatter_args(Place place, const Slot& slot) const {
  lockstep_reduce_scatter_args args = LOCKSTEP_REDUCE_SCATTER_ARGS_INIT;
  args.send = send_of(place, slot);
  args.recv = slot.recv->data();
  args.count = count_;
  args.recv_capacity = slot.recv->size() / element_;
  args.type = type_;
  args.op = op_;
  return args;
}

lockstep_all_gather_args BenchSubject::all_gather_args(Place place, const Slot& slot) const {
  const std::uint64_t own = count_ / world_;
  std::byte* const recv = slot.recv->data();
  lockstep_all_gather_args args = LOCKSTEP_ALL_GATHER_ARGS_INIT;
  args.send = place == Place::kIn ? recv + rank_ * own * element_ : send_of(place, slot);
  args.recv = recv;
  args.send_count = own;
  args.recv_capacity = slot.recv->size() / element_;
  args.type = type_;
  return args;
}

lockstep_broadcast_args BenchSubject::broadcast_args(const Slot& slot) const {
  lockstep_broadcast_args args = LOCKSTEP_BROADCAST_ARGS_INIT;
  args.data = slot.recv->data();
  args.count = count_;
  args.root = members_.front();
  args.type = type_;
  return args;
}

void BenchSubject::must_be_whole(lockstep_status status, const lockstep_result& result) const {
  check(status, options_.collective);
  if (result.world_size == world_) return;
  throw Failure(kExitFailed, fmt::format("a peer was lost: {} of {} are left", result.world_size, world_));
}

// ---- results ----

std::uint64_t BenchSubject::wrong(const lockstep_result& result) const {
  std::uint64_t errors = 0;
  for (const Slot& slot : slots_) errors += wrong_in(*slot.recv, result);
  return errors;
}

std::uint64_t BenchSubject::wrong_in(const Memory& recv, const lockstep_result& result) const {
  const Pattern pattern(type_, op_, world_);
  switch (collective_) {
    case Collective::kAllReduce:
      if (up_ == LOCKSTEP_WIRE_NATIVE && down_ == LOCKSTEP_WIRE_NATIVE)
        return pattern.wrong_in_fold(recv.span(bytes()));
      return pattern.far_from_fold(recv.span(bytes()), 1.01 * (step_of(up_) * (world_ - 1) + step_of(down_)) + 1e-6);
    case Collective::kReduce: return is_root() ? pattern.wrong_in_fold(recv.span(bytes())) : 0;
    case Collective::kReduceScatter:
      return pattern.wrong_in_fold(recv.span(result.chunk_count * element_), result.chunk_begin);
    case Collective::kAllGather: {
      const std::size_t block = bytes() / world_;
      std::uint64_t errors = 0;
      for (std::uint32_t rank = 0; rank < world_; ++rank) {
        errors += pattern.wrong_in_copy(recv.span(bytes()).subspan(rank * block, block), rank);
      }
      return errors;
    }
    case Collective::kBroadcast:
    case Collective::kSyncState: return pattern.wrong_in_copy(recv.span(bytes()), 0);
    case Collective::kSend: return pattern.wrong_in_copy(recv.span(bytes()), partner());
    case Collective::kBarrier: return 0;
  }
  return 0;
}

}  // namespace lockstep::cli
