#include "transport/launch_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/peer/validate_call.h"
#include "core/ring/runs.h"
#include "transport/driver_mutant.h"

namespace lockstep::transport {
namespace {

using wire::Collective;

// The memory of one tensor or one value of a state, with its owner for error texts.
struct Piece {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool written = false;
  bool value = false;
  bool residual = false;
  std::size_t index = 0;  // index of the tensor or value
};

Error invalid(std::string text) { return {Status::kInvalidArgument, std::move(text)}; }

// Which of a tensor's two places a collective uses.
bool uses_send(Collective collective) {
  return collective != Collective::kBroadcast && collective != Collective::kSync;
}
bool states_room(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kReduce || wire::has_blocks(collective);
}

std::uint64_t send_bytes(const LaunchArgs& args, const TensorArgs& tensor) {
  return uses_send(args.collective) ? tensor.count * size_of(args.type) : 0;
}
std::uint64_t recv_bytes(const LaunchArgs& args, const TensorArgs& tensor) {
  return states_room(args.collective) ? tensor.recv_bytes : tensor.count * size_of(args.type);
}

std::uint64_t residual_bytes(const LaunchArgs& args, const TensorArgs& tensor) {
  return tensor.residual != nullptr ? tensor.count * size_of(args.type) : 0;
}

bool in_place(const LaunchArgs& args, const TensorArgs& tensor) {
  const auto* const send = static_cast<const std::byte*>(tensor.send);
  const auto* const recv = static_cast<const std::byte*>(tensor.recv);
  if (args.collective == Collective::kAllReduce) return send == recv;
  if (args.collective != Collective::kAllGather || send == nullptr || recv == nullptr) return false;
  const auto begin = reinterpret_cast<std::uintptr_t>(send);
  const auto room = reinterpret_cast<std::uintptr_t>(recv);
  return begin >= room && begin - room <= recv_bytes(args, tensor) &&
         send_bytes(args, tensor) <= recv_bytes(args, tensor) - (begin - room);
}

std::optional<Error> validate_tensor(const LaunchArgs& args, std::size_t index) {
  const TensorArgs& tensor = args.tensors[index];
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();  // bytes of an address space
  if (tensor.count > kMost / size_of(args.type) || tensor.recv_bytes > kMost) {
    return invalid(fmt::format("tensor {}: {} elements of {} with {} bytes at recv do not fit into the address space",
                               index, tensor.count, name_of(args.type), tensor.recv_bytes));
  }
  if (send_bytes(args, tensor) > 0 && tensor.send == nullptr) {
    return invalid(fmt::format("tensor {}: send is null, but count is {}", index, tensor.count));
  }
  if (recv_bytes(args, tensor) > 0 && tensor.recv == nullptr) {
    return invalid(fmt::format("tensor {}: recv is null, but needs {} bytes", index, recv_bytes(args, tensor)));
  }
  const auto wraps = [](const void* at, std::uint64_t bytes) {
    return bytes > std::numeric_limits<std::uintptr_t>::max() - reinterpret_cast<std::uintptr_t>(at);
  };
  if (wraps(tensor.send, send_bytes(args, tensor)) || wraps(tensor.recv, recv_bytes(args, tensor)) ||
      wraps(tensor.residual, residual_bytes(args, tensor))) {
    return invalid(fmt::format("tensor {}: the memory exceeds the address space", index));
  }
  return std::nullopt;
}

// "tensor 0 (w)", "value 1 (epoch)".
std::string words_of(const Piece& piece, const state::Manifest& manifest) {
  const bool named = piece.index < (piece.value ? manifest.values.size() : manifest.tensors.size());
  const std::string name = !named        ? ""
                           : piece.value ? manifest.values[piece.index].name
                                         : manifest.tensors[piece.index].name;
  return fmt::format("{} {}{}", piece.value ? "value" : "tensor", piece.index, named ? " (" + name + ")" : "");
}

Error overlap(const LaunchArgs& args, const Piece& one, const Piece& two) {
  if (args.state != nullptr) {
    const auto place = [](const Piece& piece) { return std::pair{piece.value, piece.index}; };
    const bool in_order = place(one) < place(two);
    const Piece& first = in_order ? one : two;
    const Piece& second = in_order ? two : one;
    return invalid(fmt::format("{} overlaps {}: give each tensor and value of a state memory of its own",
                               words_of(second, args.state->manifest), words_of(first, args.state->manifest)));
  }
  if (one.index == two.index) {
    if (one.residual || two.residual) {
      return invalid(
          fmt::format("tensor {}: the residual overlaps send or recv; give it memory of its own", one.index));
    }
    const std::string_view allowed = args.collective == Collective::kAllReduce ? "the same pointer, or no overlap"
                                     : args.collective == Collective::kAllGather
                                         ? "send at this rank's own place in recv, or no overlap"
                                         : "memory that does not overlap";
    return invalid(fmt::format("tensor {}: send and recv overlap; give {}", one.index, allowed));
  }
  return invalid(fmt::format("tensors {} and {} overlap, and one of them is written", one.index, two.index));
}

// Written memory must belong to a single tensor; memory that is only read may be named twice. Tensors and values of a
// state count as written.
std::optional<Error> validate_apart(const LaunchArgs& args) {
  std::vector<Piece> pieces;
  pieces.reserve(3 * args.tensors.size() + args.values.size());
  const auto add = [&](const void* at, std::uint64_t bytes, Piece piece) {
    piece.begin = reinterpret_cast<std::uintptr_t>(at);
    piece.end = piece.begin + bytes;
    if (bytes > 0) pieces.push_back(piece);
  };
  for (std::size_t i = 0; i < args.tensors.size(); ++i) {
    const TensorArgs& tensor = args.tensors[i];
    add(tensor.recv, recv_bytes(args, tensor), {.written = true, .index = i});
    add(tensor.residual, residual_bytes(args, tensor), {.written = true, .residual = true, .index = i});
    if (!in_place(args, tensor)) add(tensor.send, send_bytes(args, tensor), {.index = i});
  }
  for (std::size_t i = 0; i < args.values.size() && !planted(DriverMutant::kValuesMayOverlap); ++i)
    add(args.values[i], sizeof(std::uint64_t), {.written = true, .value = true, .index = i});
  std::ranges::sort(pieces, {}, &Piece::begin);
  // Two places overlap: the later one begins before the furthest end so far, and one of the two is written.
  const Piece* read = nullptr;
  const Piece* written = nullptr;
  for (const Piece& piece : pieces) {
    const Piece* other = nullptr;
    if (written != nullptr && piece.begin < written->end) other = written;
    if (piece.written && read != nullptr && piece.begin < read->end) other = read;
    if (other != nullptr) return overlap(args, *other, piece);
    const Piece*& furthest = piece.written ? written : read;
    const bool is_further = furthest == nullptr || piece.end > furthest->end;
    if (is_further || planted(DriverMutant::kLastIsFurthest)) furthest = &piece;
  }
  return std::nullopt;
}

ring::Tensor add_tensor(const LaunchArgs& args, const TensorArgs& tensor, Memory& memory, Call::Loans& loans) {
  // Memory has only one kind of span; core never requests a write to memory that is only sent.
  const auto add = [&](const void* at, std::uint64_t bytes) {
    if (bytes == 0) return BufferRef{kSinkBuffer, 0, 0};
    auto* const begin =
        static_cast<std::byte*>(const_cast<void*>(at));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    loans.buffers.push_back(memory.add({begin, bytes}));
    return BufferRef{loans.buffers.back(), 0, bytes};
  };
  ring::Tensor named;
  named.count = tensor.count;
  named.recv = add(tensor.recv, recv_bytes(args, tensor));
  named.residual = add(tensor.residual, residual_bytes(args, tensor));
  if (in_place(args, tensor) && named.recv.length > 0) {
    const auto offset = static_cast<const std::byte*>(tensor.send) - static_cast<const std::byte*>(tensor.recv);
    named.send = named.recv.slice(static_cast<std::uint64_t>(offset), send_bytes(args, tensor));
  } else {
    named.send = add(tensor.send, send_bytes(args, tensor));
  }
  return named;
}

}  // namespace

std::optional<Error> validate_memory(const LaunchArgs& args) {
  for (std::size_t i = 0; i < args.tensors.size(); ++i) {
    if (auto error = validate_tensor(args, i)) return error;
  }
  return validate_apart(args);
}

namespace {

bool is_watched(const Watch& watch, const void* at, std::uint64_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  const auto after = std::ranges::lower_bound(watch.places, std::pair{begin + bytes, std::uintptr_t{0}});
  return bytes > 0 && after != watch.places.begin() && std::prev(after)->second > begin;
}

}  // namespace

std::optional<Error> validate_unwatched(const LaunchArgs& args, const Watch& watch) {
  for (std::size_t i = 0; i < args.tensors.size(); ++i) {
    const TensorArgs& tensor = args.tensors[i];
    const bool written = is_watched(watch, tensor.recv, recv_bytes(args, tensor)) ||
                         (is_watched(watch, tensor.residual, residual_bytes(args, tensor)) &&
                          !planted(DriverMutant::kResidualUnwatched));
    if (!written) continue;
    return invalid(
        fmt::format("tensor {}: the call would write to the watched state; end the watch before this call", i));
  }
  return std::nullopt;
}

namespace {

// Names the tensors of the watched state for one call.
std::shared_ptr<const ring::Watched> add_watch(const Watch& watch, Memory& memory, Call::Loans& loans) {
  auto watched = std::make_shared<ring::Watched>();
  watched->state = watch.args.state;
  watched->memory.reserve(watch.args.tensors.size());
  for (const TensorArgs& tensor : watch.args.tensors) {
    watched->memory.push_back(add_tensor(watch.args, tensor, memory, loans).recv);
  }
  return watched;
}

// All fields except the places of the tensors.
ring::Request request_of(const LaunchArgs& args) {
  ring::Request request;
  static_cast<ring::Arguments&>(request) = static_cast<const ring::Arguments&>(args);
  request.minimum_world = 1;  // prepare() sets that of a launch
  request.blocks = args.blocks;
  request.state = args.state;
  request.tensors.reserve(args.tensors.size());
  return request;
}

}  // namespace

Result<Watch> watch_of(const LaunchArgs& args) {
  if (args.state == nullptr) return invalid("watch needs a state");
  ring::Request request = request_of(args);
  request.tensors.resize(args.tensors.size());
  if (auto error = peer::validate_call(request)) return *error;
  if (auto error = validate_memory(args)) return *error;
  if (args.state->blank) return invalid("a blank state cannot be watched");
  if (args.state->manifest.tensors.size() != args.tensors.size())
    return invalid("the state has no memory for some of its tensors");
  Watch watch{args, {}};
  for (std::size_t i = 0; i < args.tensors.size(); ++i) {
    const auto begin = reinterpret_cast<std::uintptr_t>(args.tensors[i].recv);
    const std::uint64_t bytes = recv_bytes(args, args.tensors[i]);
    if (bytes > 0 && !args.state->manifest.tensors[i].may_differ) watch.places.emplace_back(begin, begin + bytes);
  }
  std::ranges::sort(watch.places);  // places never overlap, because a sync would write to them
  return watch;
}

namespace {

// Tensors that travel as one: their places in a block of scratch, `send` before `recv`.
class Joins {
 public:
  Joins(const LaunchArgs& args, std::vector<ring::Run> runs) : args_(args), runs_(std::move(runs)) {}

  // Adds a tensor for each run. Joined ones have no buffer yet: finish().
  void add_to(ring::Request& request, Memory& memory, Call::Loans& loans) {
    for (const ring::Run& run : runs_) {
      if (run.joins()) {
        request.tensors.push_back(place(run));
      } else {
        request.tensors.push_back(add_tensor(args_, args_.tensors[run.begin], memory, loans));
      }
    }
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  // Names the places, copies what is sent, and lists where results go.
  void finish(ring::Request& request, BufferId buffer, std::span<std::byte> block, Call::Loans& loans) const {
    std::size_t joined = 0;
    for (const ring::Run& run : runs_) joined += run.joins() ? run.end - run.begin : 0;
    loans.joined.reserve(joined);
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (!runs_[i].joins()) continue;
      ring::Tensor& tensor = request.tensors[i];
      if (tensor.send.length > 0) tensor.send.id = buffer;
      if (tensor.recv.length > 0) tensor.recv.id = buffer;
      copy(runs_[i], tensor, block, loans);
    }
  }

 private:
  [[nodiscard]] bool sends() const { return uses_send(args_.collective); }
  // In a reduce, only the root has room for results.
  [[nodiscard]] bool receives(const ring::Run& run) const {
    return std::all_of(args_.tensors.begin() + static_cast<std::ptrdiff_t>(run.begin),
                       args_.tensors.begin() + static_cast<std::ptrdiff_t>(run.end), [&](const TensorArgs& tensor) {
                         return recv_bytes(args_, tensor) >= tensor.count * size_of(args_.type);
                       });
  }

  BufferRef take(std::uint64_t bytes) {
    constexpr std::uint64_t kLine = 64;
    if (bytes == 0) return {kSinkBuffer, 0, 0};
    return {kSinkBuffer, std::exchange(bytes_, bytes_ + (bytes + kLine - 1) / kLine * kLine), bytes};
  }

  ring::Tensor place(const ring::Run& run) {
    const std::uint64_t bytes = run.count * size_of(args_.type);
    ring::Tensor tensor;
    tensor.count = run.count;
    tensor.send = take(sends() ? bytes : 0);
    tensor.recv = take(receives(run) ? bytes : 0);
    return tensor;
  }

  void copy(const ring::Run& run, const ring::Tensor& tensor, std::span<std::byte> block, Call::Loans& loans) const {
    std::byte* const send = block.data() + (sends() ? tensor.send.offset : tensor.recv.offset);
    std::uint64_t at = 0;
    for (std::size_t i = run.begin; i < run.end; ++i) {
      const TensorArgs& given = args_.tensors[i];
      const std::uint64_t bytes = given.count * size_of(args_.type);
      if (bytes == 0) continue;
      std::memcpy(send + at, sends() ? given.send : given.recv, bytes);
      if (tensor.recv.length > 0) {
        loans.joined.push_back({block.data() + tensor.recv.offset + at, given.recv, bytes});
      }
      at += bytes;
    }
  }

  const LaunchArgs& args_;
  std::vector<ring::Run> runs_;
  std::uint64_t bytes_ = 0;
};

// The runs of a call, and its tensors as the caller stated them.
std::vector<ring::Run> runs_of(const LaunchArgs& args, ring::Request& request) {
  std::vector<std::uint64_t> counts;
  counts.reserve(args.tensors.size());
  bool encodes = ring::is_encoded(request);
  for (const TensorArgs& tensor : args.tensors) {
    counts.push_back(tensor.count);
    encodes = encodes || tensor.residual != nullptr;
  }
  std::vector<ring::Run> runs = ring::runs_of(args.collective, encodes, counts, size_of(args.type));
  if (runs.size() < counts.size())
    request.stated = {static_cast<std::uint32_t>(counts.size()), ring::layout_of(counts)};
  return runs;
}

}  // namespace

Result<ring::Request> prepare(const LaunchArgs& args, std::uint32_t minimum_world, Memory& memory, ScratchPool& pool,
                              Call::Loans& loans, const Watch* watch) try {
  ring::Request request = request_of(args);
  request.minimum_world = minimum_world;
  loans.values = args.values;
  loans.writes_state = args.state != nullptr && args.state->strategy != state::Strategy::kSendOnly;
  Joins joins(args, runs_of(args, request));
  loans.buffers.reserve(3 * args.tensors.size() + 1 + (watch != nullptr ? watch->args.tensors.size() : 0));
  joins.add_to(request, memory, loans);
  if (auto error = peer::validate_call(request)) return *error;
  if (watch != nullptr) request.watch = add_watch(*watch, memory, loans);

  const std::uint64_t scratch = ring::scratch_bytes(request);
  const std::uint64_t bytes = joins.bytes() + scratch;
  if (bytes == 0) return request;
  loans.scratch = pool.take(bytes);
  if (loans.scratch.bytes().empty()) {
    return Error{
        Status::kOutOfMemory,
        fmt::format(
            "no memory for {} bytes of scratch (a call in place keeps a copy of its input); free some memory, or "
            "use separate memory for send and recv",
            bytes)};
  }
  loans.buffers.push_back(memory.add(loans.scratch.bytes().first(bytes)));
  joins.finish(request, loans.buffers.back(), loans.scratch.bytes(), loans);
  if (scratch > 0) request.scratch = {loans.buffers.back(), joins.bytes(), scratch};
  return request;
} catch (const std::bad_alloc&) {
  return Error{Status::kOutOfMemory,
               fmt::format("out of memory while registering {} tensors: free some memory", args.tensors.size())};
}

Result<ring::Request> snapshot(const LaunchArgs& args, Memory& memory, ScratchPool& pool, Call::Loans& loans) try {
  ring::Request request = request_of(args);
  std::uint64_t bytes = 0;
  for (const TensorArgs& tensor : args.tensors) {
    request.tensors.emplace_back().count = tensor.count;
    bytes += recv_bytes(args, tensor);
  }
  if (auto error = peer::validate_call(request)) return *error;
  if (bytes > 0) {
    loans.scratch = pool.take(bytes);
    if (loans.scratch.bytes().empty()) {
      return Error{
          Status::kOutOfMemory,
          fmt::format("no memory for a copy of {} bytes of state; free some memory, or lend the tensors (stable)",
                      bytes)};
    }
    loans.buffers.push_back(memory.add(loans.scratch.bytes().first(bytes)));
  }
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < args.tensors.size(); ++i) {
    const TensorArgs& tensor = args.tensors[i];
    const std::uint64_t length = recv_bytes(args, tensor);
    if (length == 0) continue;
    std::memcpy(loans.scratch.bytes().data() + offset, tensor.recv, length);
    request.tensors[i].recv = {loans.buffers.back(), offset, length};
    offset += length;
  }
  return request;
} catch (const std::bad_alloc&) {
  return Error{Status::kOutOfMemory,
               fmt::format("out of memory while registering {} tensors: free some memory", args.tensors.size())};
}

// The root of a broadcast may have lent memory that is read-only, and has its result already.
void give_results(const Call::Loans& loans) {
  for (const Call::Loans::Joined& tensor : loans.joined) {
    if (std::memcmp(tensor.into, tensor.from, tensor.bytes) != 0) std::memcpy(tensor.into, tensor.from, tensor.bytes);
  }
}

std::optional<Error> validate_memory(const TransferArgs& args) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();  // bytes of an address space
  if (args.count > kMost / size_of(args.type)) {
    return invalid(fmt::format("{} elements of {} do not fit into the address space", args.count, name_of(args.type)));
  }
  const std::uint64_t bytes = args.count * size_of(args.type);
  if (bytes > 0 && args.data == nullptr) return invalid(fmt::format("data is null, but count is {}", args.count));
  if (bytes > std::numeric_limits<std::uintptr_t>::max() - reinterpret_cast<std::uintptr_t>(args.data))
    return invalid("the memory exceeds the address space");
  return std::nullopt;
}

std::optional<Error> validate_unwatched(const TransferArgs& args, const Watch& watch) {
  if (!is_watched(watch, args.data, args.count * size_of(args.type))) return std::nullopt;
  return invalid("the call would write to the watched state; end the watch before this call");
}

Result<peer::Transfer> prepare(const TransferArgs& args, Memory& memory, Call::Loans& loans) try {
  peer::Transfer what{.peer = args.peer,
                      .tag = args.tag,
                      .type = args.type,
                      .count = args.count,
                      .memory = {kSinkBuffer, 0, 0},
                      .timeout = args.timeout};
  const std::uint64_t bytes = args.count * size_of(args.type);
  if (bytes == 0) return what;
  auto* const begin =
      static_cast<std::byte*>(const_cast<void*>(args.data));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  loans.buffers.reserve(1);
  loans.buffers.push_back(memory.add({begin, bytes}));
  what.memory = {loans.buffers.back(), 0, bytes};
  return what;
} catch (const std::bad_alloc&) {
  return Error{Status::kOutOfMemory, "out of memory while registering a tensor: free some memory"};
}

void give_back(Call::Loans& loans, Memory& memory) {
  for (const BufferId id : loans.buffers) memory.remove(id);
  loans.buffers.clear();
  loans.scratch = {};
  loans.joined.clear();
  loans.room = {};
  loans.values.clear();
}

}  // namespace lockstep::transport
