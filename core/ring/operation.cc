#include "core/ring/operation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/kernels/float_environment.h"
#include "core/ring/direct_operation.h"
#include "core/ring/ring_operation.h"
#include "core/wire/limits.h"

namespace lockstep::ring {

namespace {

using wire::Phase;

// The most pieces whose results are decoded in one step of the machine.
constexpr std::size_t kDecodedAtOnce = 16;

// The most exchanges of a direct operation; their indices fit into a job token.
constexpr std::uint64_t kMaxExchanges = std::uint64_t{1} << 20U;

std::vector<std::uint64_t> counts_of(const peer::Request& request) {
  std::vector<std::uint64_t> counts;
  counts.reserve(request.tensors.size());
  for (const peer::Tensor& tensor : request.tensors) counts.push_back(tensor.count);
  return counts;
}

Error too_small(std::uint64_t has, std::uint64_t needs, std::size_t world) {
  return {Status::kBufferTooSmall, "the receive buffer holds " + std::to_string(has) + " bytes, the result needs " +
                                       std::to_string(needs) + " (world size " + std::to_string(world) + ")"};
}

}  // namespace

float total_weight(std::span<const std::uint64_t> weights) {
  const StandardFloats standard_floats;  // this may run on any thread, and all ranks must compute the same total
  double total = 0;                      // added in rank order; exact unless the weights differ by a factor of 2^29
  for (const std::uint64_t bits : weights) total += std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  return total > std::numeric_limits<float>::max() ? std::numeric_limits<float>::infinity() : static_cast<float>(total);
}

std::unique_ptr<Operation> Operation::of(const peer::Request& request, Rank rank, std::uint32_t world,
                                         std::uint32_t root, std::vector<std::uint64_t> stakes, Segmenting segmenting) {
  if (peer::goes_direct(request) && world > 1) {
    return std::make_unique<DirectOperation>(request, rank, world, std::move(stakes), segmenting);
  }
  return std::make_unique<RingOperation>(request, rank, world, root, std::move(stakes), segmenting);
}

Operation::Operation(const peer::Request& request, Rank rank, std::uint32_t world, std::uint32_t root,
                     std::vector<std::uint64_t> stakes, Segmenting segmenting)
    : request_(request), rank_(rank), world_(world), stakes_(std::move(stakes)), encoded_(peer::is_encoded(request)) {
  if (encoded_ && request.op == ReduceOp::kAvg) {
    const bool weighs = request.weight && !mutant(Mutant::kWeightsUncounted);
    weigh(weighs ? total_weight(stakes_) : static_cast<float>(world));
  }
  LOCKSTEP_ASSERT(segmenting.formats == request.formats);
  const auto element_bytes = static_cast<std::uint32_t>(size_of(request.type));
  if (request.collective == wire::Collective::kAllGather) {
    LOCKSTEP_ASSERT(stakes_.size() == world);
    pieces_ = cut_blocks(stakes_, element_bytes, segmenting);
  } else {
    pieces_ = cut(request.collective, counts_of(request), element_bytes, world, root, segmenting);
  }
  std::uint64_t scratch = 0;
  for (const peer::Tensor& tensor : request.tensors) {
    scratch_offsets_.push_back(scratch);
    scratch += peer::scratch_bytes(request, tensor);
  }
  scratch_offsets_.push_back(scratch);
  for (const Piece& piece : pieces_) {
    if (request.collective != wire::Collective::kReduceScatter || piece.owner == rank.value) ++finals_missing_;
  }
}

void Operation::weigh(float total) {
  const StandardFloats standard_floats;
  int of_world = 0;
  int of_total = 0;
  (void)std::frexp(static_cast<float>(world_), &of_world);
  total_ = std::ldexp(std::frexp(total, &of_total), of_world);
  const float own = request_.weight.value_or(1);
  weight_ = std::ldexp(own, of_world - of_total);
  if (own > 0 && weight_ == 0 && !mutant(Mutant::kTinyWeightIsNone))
    weight_ = std::numeric_limits<float>::denorm_min();  // the rank still counts as a contributor
}

std::optional<Error> Operation::refusal(const peer::Request& request, Rank rank, std::uint32_t world,
                                        std::span<const std::uint64_t> stakes, Segmenting segmenting) {
  const auto element = static_cast<std::uint32_t>(size_of(request.type));
  std::uint64_t segments = 0;
  if (request.collective == wire::Collective::kAllGather) {
    if (auto refusal = refusal_of_blocks(request, rank, stakes)) return refusal;
    segments = segments_in_blocks(stakes, element, segmenting);
  } else {
    segments = segments_in(request.collective, counts_of(request), element, world, segmenting);
  }
  if (segments > kMaxSegments) {
    return Error{Status::kInvalidArgument, "the call needs " + std::to_string(segments) +
                                               " segments, more than the limit of " + std::to_string(kMaxSegments) +
                                               ": split the call, or use larger segments"};
  }
  if (const float total = request.weight ? total_weight(stakes) : 1; total == 0 || !std::isfinite(total)) {
    return Error{Status::kInvalidArgument,
                 total == 0 ? "all contributions have weight 0: there is nothing to average"
                            : "the weights of all contributions add up to more than an f32 holds: use smaller weights"};
  }
  if (peer::goes_direct(request) && world > 1) return refusal_of_exchanges(request, rank, world, segmenting);
  if (request.collective == wire::Collective::kReduceScatter) {
    for (const peer::Tensor& tensor : request.tensors) {
      const std::uint64_t needs = chunk_of(rank.value, world, tensor.count).size() * element;
      if (tensor.recv.length < needs) return too_small(tensor.recv.length, needs, world);
    }
  }
  return std::nullopt;
}

// Direct algorithm: limits what a rank keeps for each other rank, and checks that the contributions to one piece fit
// the room.
std::optional<Error> Operation::refusal_of_exchanges(const peer::Request& request, Rank rank, std::uint32_t world,
                                                     Segmenting segmenting) {
  std::uint64_t exchanges = 0;
  std::uint64_t largest = 0;
  for (const Piece& piece : cut(request.collective, counts_of(request), sizeof(float), world, 0, segmenting)) {
    exchanges += piece.owner == rank.value ? world - 1 : 1;
    largest = std::max<std::uint64_t>(largest, piece.form(Phase::kReduceScatter).bytes);
  }
  if (exchanges > kMaxExchanges) {
    return Error{Status::kInvalidArgument, "the direct algorithm needs " + std::to_string(exchanges) +
                                               " exchanges for this call, more than the limit of " +
                                               std::to_string(kMaxExchanges) + ": split the call, or use the ring"};
  }
  if (largest * (world - 1) > segmenting.room) {
    return Error{Status::kInvalidArgument,
                 "the contributions of " + std::to_string(world - 1) + " other ranks, " + std::to_string(largest) +
                     " bytes each, do not fit into the " + std::to_string(segmenting.room) +
                     " bytes of room of the direct algorithm: use the ring, or a wire format with smaller blocks"};
  }
  return std::nullopt;
}

// The block sizes were stated by other ranks.
std::optional<Error> Operation::refusal_of_blocks(const peer::Request& request, Rank rank,
                                                  std::span<const std::uint64_t> blocks) {
  std::uint64_t needs = 0;
  std::uint64_t mine = 0;
  for (std::size_t r = 0; r < blocks.size(); ++r) {
    if (r == rank.value) mine = needs;
    needs = blocks[r] > UINT64_MAX - needs ? UINT64_MAX : needs + blocks[r];
  }
  const peer::Tensor& tensor = request.tensors.front();
  if (tensor.recv.length < needs) return too_small(tensor.recv.length, needs, blocks.size());
  const bool overlaps = tensor.send.id == tensor.recv.id && tensor.send.length > 0 &&
                        tensor.send.offset < tensor.recv.offset + needs &&
                        tensor.recv.offset < tensor.send.offset + tensor.send.length;
  if (overlaps && tensor.send.offset != tensor.recv.offset + mine) {
    return Error{Status::kInvalidArgument, "send is inside recv, but not at this rank's block, which begins at byte " +
                                               std::to_string(mine) + " of the result"};
  }
  return std::nullopt;
}

bool Operation::can_be_have(std::span<const std::uint64_t> have) const {
  const std::size_t bits = pieces_.size() * 2;
  if (have.empty()) return true;
  return have.size() == (bits + 63) / 64 && (bits % 64 == 0 || (have.back() >> (bits % 64)) == 0);
}

bool Operation::has(std::span<const std::uint64_t> have, Phase phase, std::size_t piece) const {
  const std::size_t bit = index_of(phase) * pieces_.size() + piece;
  return !have.empty() && ((have[bit / 64] >> (bit % 64)) & 1U) != 0;
}

void Operation::add_to(std::vector<std::uint64_t>& have, Phase phase, std::size_t piece) const {
  const std::size_t bit = index_of(phase) * pieces_.size() + piece;
  have.resize((pieces_.size() * 2 + 63) / 64);
  have[bit / 64] |= std::uint64_t{1} << (bit % 64);
}

bool Operation::in_place(const Piece& piece) const {
  return peer::reduces_in_place(request_, request_.tensors[piece.tensor]);
}

BufferRef Operation::backup(const Piece& piece) const {
  return request_.scratch.slice(scratch_offsets_[piece.tensor] + piece.offset, piece.length);
}

BufferRef Operation::input(const Piece& piece) const {
  const peer::Tensor& tensor = request_.tensors[piece.tensor];
  switch (request_.collective) {
    case wire::Collective::kBroadcast: return tensor.recv.slice(piece.offset, piece.length);
    case wire::Collective::kAllGather: {
      std::uint64_t begin = 0;
      for (std::uint32_t r = 0; r < rank_.value; ++r) begin += stakes_[r];
      return tensor.send.slice(piece.offset - begin, piece.length);
    }
    case wire::Collective::kAllReduce:
    case wire::Collective::kReduceScatter:
    case wire::Collective::kBarrier:
    case wire::Collective::kSync: return tensor.send.slice(piece.offset, piece.length);
  }
  LOCKSTEP_UNREACHABLE();
}

BufferRef Operation::work(const Piece& piece) const {
  if (request_.collective == wire::Collective::kReduceScatter || (encoded_ && in_place(piece))) return backup(piece);
  return request_.tensors[piece.tensor].recv.slice(piece.offset, piece.length);
}

BufferRef Operation::arrival(const Piece& piece, Phase phase) const {
  if (phase == Phase::kAllGather) return departure(piece, phase);
  const std::uint32_t bytes = piece.form(phase).bytes;
  return work(piece).slice(piece.length - bytes, bytes);
}

BufferRef Operation::departure(const Piece& piece, Phase phase) const {
  return work(piece).slice(0, piece.form(phase).bytes);
}

BufferRef Operation::result(const Piece& piece) const {
  if (request_.collective != wire::Collective::kReduceScatter) {
    return request_.tensors[piece.tensor].recv.slice(piece.offset, piece.length);
  }
  const peer::Tensor& tensor = request_.tensors[piece.tensor];
  const std::uint64_t begin = chunk_of(rank_.value, world_, tensor.count).begin * size_of(request_.type);
  return tensor.recv.slice(piece.offset - begin, piece.length);
}

BufferRef Operation::residual(const Piece& piece) const {
  const BufferRef& all = request_.tensors[piece.tensor].residual;
  return all.length > 0 ? all.slice(piece.offset, piece.length) : BufferRef{};
}

Error Operation::not_finite(const Piece& piece, std::uint64_t element, bool of_sum) const {
  const std::uint64_t at = piece.offset / sizeof(float) + element;
  return {Status::kInvalidArgument, "tensor " + std::to_string(piece.tensor) + ", element " + std::to_string(at) +
                                        ": " + (of_sum ? "the contribution or the partial sum" : "the contribution") +
                                        " is infinite or NaN: wire formats and weighted averages need finite numbers"};
}

void Operation::take_corrupt(Finished& finished, std::uint8_t& count, const Piece& piece, Phase phase, Rank from) {
  if (count == kMostCorrupt) return;
  finished.corrupt = true;
  finished.from = from;
  if (mutant(Mutant::kWrongForEver) || ++count < kMostCorrupt) return;
  const bool is_final = phase == Phase::kAllGather;
  finished.fault =
      Error{Status::kInternal, "tensor " + std::to_string(piece.tensor) + ", chunk " + std::to_string(piece.owner) +
                                   ", from byte " + std::to_string(piece.offset) + ": " +
                                   (is_final ? "the result" : "the partial sum") + " from rank " +
                                   std::to_string(from.value) + " arrived " + std::to_string(kMostCorrupt) +
                                   " times with a wrong checksum: the memory or the CPU of that host is faulty"};
}

JobToken Operation::JobName::token() const {
  return JobToken{(static_cast<std::uint64_t>(index) << 8U) | (index_of(phase) << 4U) |
                  static_cast<std::uint64_t>(purpose)};
}

Operation::JobName Operation::JobName::of(JobToken token) {
  return {static_cast<std::size_t>(token.value >> 8U),
          ((token.value >> 4U) & 1U) == 0 ? Phase::kReduceScatter : Phase::kAllGather,
          static_cast<Purpose>(token.value & 0xfU)};
}

KernelJob& Operation::start(std::vector<KernelJob>& jobs, JobKind kind, const JobName& name, const Piece& piece) {
  KernelJob job;
  job.token = name.token();
  job.kind = kind;
  job.type = request_.type;
  job.op = request_.op;
  if (encoded_) {
    job.count = piece.length / sizeof(float);
    job.arrived = job.departs = piece.form(name.phase).format;
    job.weight = weight_;
  }
  ++running_;
  return jobs.emplace_back(job);
}

void Operation::decode_some(std::vector<KernelJob>& jobs) {
  LOCKSTEP_ASSERT(stopped_ && complete());
  if (!encoded_ || world_ == 1) return;
  const std::size_t pieces = pieces_.size() - (mutant(Mutant::kLeftEncoded) && !pieces_.empty() ? 1 : 0);
  for (; decoded_ < pieces && running_ < kDecodedAtOnce; ++decoded_) {
    // In place, the result overwrites the input of the residual: update the residual first.
    if (!leave(decoded_, jobs)) decode(decoded_, jobs);
  }
}

bool Operation::leave(std::size_t piece, std::vector<KernelJob>& jobs) {
  const Piece& whose = pieces_[piece];
  const BufferRef left = residual(whose);
  if (left.length == 0 || weight_ == 0) return false;
  KernelJob& job = start(jobs, JobKind::kLeave, {piece, Phase::kReduceScatter, Purpose::kLeave}, whose);
  job.from = input(whose);
  job.residual = left;
  // the owner's own contribution was added without encoding
  if (whose.owner == rank_.value) job.departs = WireFormat::kNative;
  return true;
}

void Operation::decode(std::size_t piece, std::vector<KernelJob>& jobs) {
  KernelJob& job = start(jobs, JobKind::kDecode, {piece, Phase::kAllGather, Purpose::kDecode}, pieces_[piece]);
  job.from = departure(pieces_[piece], Phase::kAllGather);
  job.into = result(pieces_[piece]);
}

}  // namespace lockstep::ring
