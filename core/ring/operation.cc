#include "core/ring/operation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/kernels/float_environment.h"
#include "core/ring/direct_operation.h"
#include "core/ring/ring_operation.h"
#include "core/ring/shares.h"
#include "core/wire/limits.h"

namespace lockstep::ring {

namespace {

using wire::Phase;

// The most pieces whose results are decoded in one step of the machine.
constexpr std::size_t kDecodedAtOnce = 16;

// The most exchanges of a direct operation; their indices fit into a job token.
constexpr std::uint64_t kMaxExchanges = std::uint64_t{1} << 20U;

std::vector<std::uint64_t> counts_of(const Request& request) {
  std::vector<std::uint64_t> counts;
  counts.reserve(request.tensors.size());
  for (const Tensor& tensor : request.tensors) counts.push_back(tensor.count);
  return counts;
}

// By rate, the rank parameters are reports of lines; in any other call the ranks own equal parts.
std::vector<std::uint32_t> shares_in(const Segmenting& segmenting, std::span<const std::uint64_t> rank_parameters) {
  if (!segmenting.by_rate) return {};
  std::vector<Rate> rates;
  rates.reserve(rank_parameters.size());
  for (const std::uint64_t parameter : rank_parameters) rates.push_back(LineReport::of(parameter).rate);
  return shares_of(rates);
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

std::unique_ptr<Operation> Operation::of(const Request& request, Rank rank, std::uint32_t world, std::uint32_t root,
                                         std::vector<std::uint64_t> rank_parameters, Segmenting segmenting) {
  if (wire::has_owners(segmenting.algorithm) && world > 1) {
    return std::make_unique<DirectOperation>(request, rank, world, root, std::move(rank_parameters), segmenting);
  }
  return std::make_unique<RingOperation>(request, rank, world, root, std::move(rank_parameters), segmenting);
}

Operation::Operation(const Request& request, Rank rank, std::uint32_t world, std::uint32_t root,
                     std::vector<std::uint64_t> rank_parameters, Segmenting segmenting)
    : request_(request),
      rank_(rank),
      world_(world),
      rank_parameters_(std::move(rank_parameters)),
      encoded_(is_encoded(request)),
      keeps_input_(encoded_ || (wire::has_owners(segmenting.algorithm) && world > 1)) {
  if (encoded_ && request.op == ReduceOp::kAvg) {
    const bool weighs = request.weight && !mutant(Mutant::kWeightsUncounted);
    weigh(weighs ? total_weight(rank_parameters_) : static_cast<float>(world));
  } else if (request.weight && !mutant(Mutant::kWeightsUncounted)) {
    weight_ = *request.weight;
  }
  LOCKSTEP_ASSERT(segmenting.formats == request.formats);
  LOCKSTEP_ASSERT(request.collective != wire::Collective::kAllGather || rank_parameters_.size() == world);
  pieces_ = pieces_of(request, world, root, rank_parameters_, segmenting);
  std::uint64_t scratch = 0;
  for (const Tensor& tensor : request.tensors) {
    scratch_offsets_.push_back(scratch);
    scratch += scratch_bytes(request, tensor);
  }
  scratch_offsets_.push_back(scratch);
  for (const Piece& piece : pieces_) {
    if (!results_differ(request.collective) || piece.owner == rank.value) ++finals_missing_;
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

std::optional<Error> Operation::validate(const Request& request, Rank rank, std::uint32_t world, std::uint32_t root,
                                         std::span<const std::uint64_t> rank_parameters, Segmenting segmenting) {
  const auto element = static_cast<std::uint32_t>(size_of(request.type));
  std::uint64_t segments = 0;
  if (request.collective == wire::Collective::kAllGather) {
    if (auto refusal = validate_blocks(request, rank, rank_parameters)) return refusal;
    segments = segments_in_blocks(rank_parameters, element, segmenting);
  } else {
    segments = segments_in(request.collective, counts_of(request), element, world, segmenting);
  }
  if (auto refusal = validate_segments(segments)) return refusal;
  const bool is_weighted_average = request.weight && request.op == ReduceOp::kAvg;
  if (const float total = is_weighted_average ? total_weight(rank_parameters) : 1;
      total == 0 || !std::isfinite(total)) {
    return Error{Status::kInvalidArgument,
                 total == 0 ? "all contributions have weight 0: there is nothing to average"
                            : "the weights of all contributions add up to more than an f32 holds: use smaller weights"};
  }
  if (request.collective == wire::Collective::kReduceScatter) {
    for (const Tensor& tensor : request.tensors) {
      const std::uint64_t needs = chunk_of(rank.value, world, tensor.count).size() * element;
      if (tensor.recv.length < needs) return too_small(tensor.recv.length, needs, world);
    }
  }
  if (request.collective == wire::Collective::kReduce && rank.value == root) {
    for (const Tensor& tensor : request.tensors) {
      const std::uint64_t needs = tensor.count * element;
      if (tensor.recv.length < needs) return too_small(tensor.recv.length, needs, world);
    }
  }
  if (wire::has_owners(segmenting.algorithm) && world > 1)
    return validate_exchanges(request, rank, world, root, rank_parameters, segmenting);
  return std::nullopt;
}

std::vector<Piece> Operation::pieces_of(const Request& request, std::uint32_t world, std::uint32_t root,
                                        std::span<const std::uint64_t> rank_parameters, Segmenting segmenting) {
  const auto element = static_cast<std::uint32_t>(size_of(request.type));
  if (wire::exchanges(request.collective)) return {};  // an exchange lists its own: they differ between ranks
  if (request.collective == wire::Collective::kAllGather) return cut_blocks(rank_parameters, element, segmenting);
  std::vector<Piece> pieces = cut(request.collective, counts_of(request), element, world, root, segmenting);
  deal(pieces, shares_in(segmenting, rank_parameters), kMaxExchanges);
  return pieces;
}

// With owners: limits what a rank keeps for each other rank, and checks that the contributions to one piece of an
// all-reduce fit the room.
std::optional<Error> Operation::validate_exchanges(const Request& request, Rank rank, std::uint32_t world,
                                                   std::uint32_t root, std::span<const std::uint64_t> rank_parameters,
                                                   const Segmenting& segmenting) {
  std::uint64_t exchanges = 0;
  std::uint64_t largest = 0;
  const std::string algorithm(name_of(segmenting.algorithm));
  const Grid grid = grid_of(segmenting.algorithm, world);
  for (const Piece& piece : pieces_of(request, world, root, rank_parameters, segmenting)) {
    exchanges += grid.children(rank.value, piece.owner) + (piece.owner == rank.value ? 0 : 1);
    largest = std::max<std::uint64_t>(largest, piece.form(Phase::kReduceScatter).bytes);
  }
  if (exchanges > kMaxExchanges) {
    return Error{Status::kInvalidArgument, "the " + algorithm + " algorithm needs " + std::to_string(exchanges) +
                                               " exchanges for this call, more than the limit of " +
                                               std::to_string(kMaxExchanges) + ": split the call, or use the ring"};
  }
  if (request.collective == wire::Collective::kAllReduce && largest * grid.most_children() > segmenting.room) {
    return Error{Status::kInvalidArgument, "the contributions of " + std::to_string(grid.most_children()) +
                                               " other ranks, " + std::to_string(largest) +
                                               " bytes each, do not fit into the " + std::to_string(segmenting.room) +
                                               " bytes of room of the " + algorithm +
                                               " algorithm: use the ring, or a wire format with smaller blocks"};
  }
  return std::nullopt;
}

std::optional<Error> Operation::validate_segments(std::uint64_t segments) {
  if (segments <= kMaxSegments) return std::nullopt;
  return Error{Status::kInvalidArgument, "the call needs " + std::to_string(segments) +
                                             " segments, more than the limit of " + std::to_string(kMaxSegments) +
                                             ": split the call, or use larger segments"};
}

std::optional<Error> Operation::validate_room(std::uint64_t room, std::span<const std::uint64_t> blocks) {
  std::uint64_t needs = 0;
  for (const std::uint64_t bytes : blocks) needs = bytes > UINT64_MAX - needs ? UINT64_MAX : needs + bytes;
  if (room < needs) return too_small(room, needs, blocks.size());
  return std::nullopt;
}

// The block sizes come from other ranks, which may lie.
std::optional<Error> Operation::validate_blocks(const Request& request, Rank rank,
                                                std::span<const std::uint64_t> blocks) {
  const Tensor& tensor = request.tensors.front();
  if (auto refusal = validate_room(tensor.recv.length, blocks)) return refusal;
  const std::uint64_t mine = std::accumulate(blocks.begin(), blocks.begin() + rank.value, std::uint64_t{0});
  const std::uint64_t needs = std::accumulate(blocks.begin(), blocks.end(), std::uint64_t{0});
  const bool overlaps = tensor.send.id == tensor.recv.id && tensor.send.length > 0 &&
                        tensor.send.offset < tensor.recv.offset + needs &&
                        tensor.recv.offset < tensor.send.offset + tensor.send.length;
  if (overlaps && tensor.send.offset != tensor.recv.offset + mine) {
    return Error{Status::kInvalidArgument, "send is inside recv, but not at this rank's block, which begins at byte " +
                                               std::to_string(mine) + " of the result"};
  }
  return std::nullopt;
}

bool Operation::can_be_have(std::span<const std::uint64_t> have) const { return is_bit_set(have, pieces_.size() * 2); }

bool Operation::has_bit(std::span<const std::uint64_t> words, std::size_t bit) {
  return !words.empty() && ((words[bit / 64] >> (bit % 64)) & 1U) != 0;
}

void Operation::add_bit(std::vector<std::uint64_t>& words, std::size_t bit, std::size_t bits) {
  words.resize((bits + 63) / 64);
  words[bit / 64] |= std::uint64_t{1} << (bit % 64);
}

bool Operation::is_bit_set(std::span<const std::uint64_t> words, std::size_t bits) {
  if (words.empty()) return true;
  return words.size() == (bits + 63) / 64 && (bits % 64 == 0 || (words.back() >> (bits % 64)) == 0);
}

bool Operation::has(std::span<const std::uint64_t> have, Phase phase, std::size_t piece) const {
  const std::size_t bit = index_of(phase) * pieces_.size() + piece;
  return has_bit(have, bit);
}

void Operation::add_to(std::vector<std::uint64_t>& have, Phase phase, std::size_t piece) const {
  const std::size_t bit = index_of(phase) * pieces_.size() + piece;
  add_bit(have, bit, pieces_.size() * 2);
}

bool Operation::in_place(const Piece& piece) const {
  return reduces_in_place(request_, request_.tensors[piece.tensor]);
}

BufferRef Operation::backup(const Piece& piece) const {
  return request_.scratch.slice(scratch_offsets_[piece.tensor] + piece.offset, piece.length);
}

BufferRef Operation::input(const Piece& piece) const {
  const Tensor& tensor = request_.tensors[piece.tensor];
  switch (request_.collective) {
    case wire::Collective::kBroadcast: return tensor.recv.slice(piece.offset, piece.length);
    case wire::Collective::kAllGather: {
      std::uint64_t begin = 0;
      for (std::uint32_t r = 0; r < rank_.value; ++r) begin += rank_parameters_[r];
      return tensor.send.slice(piece.offset - begin, piece.length);
    }
    case wire::Collective::kAllReduce:
    case wire::Collective::kReduceScatter:
    case wire::Collective::kReduce:
    case wire::Collective::kGather:
    case wire::Collective::kScatter:
    case wire::Collective::kAllToAll:
    case wire::Collective::kBarrier:
    case wire::Collective::kSync: return tensor.send.slice(piece.offset, piece.length);
  }
  LOCKSTEP_UNREACHABLE();
}

BufferRef Operation::work(const Piece& piece) const {
  if (results_differ(request_.collective) || (keeps_input_ && in_place(piece))) return backup(piece);
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
  const Tensor& tensor = request_.tensors[piece.tensor];
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

// Rule 35: the stream of a corrupt segment is reset; a segment that is always wrong ends the round.
void Operation::take_corrupt(Finished& finished, std::uint8_t& count, const Piece& piece, Phase phase, Rank from,
                             std::vector<KernelJob>& jobs) {
  if (count == kMostCorrupt) return;
  finished.corrupt = true;
  finished.from = from;
  if (mutant(Mutant::kWrongForEver) || ++count < kMostCorrupt) return;
  if (!given_up_.empty()) return;
  const bool is_final = phase == Phase::kAllGather;
  given_up_ = place_of(piece) + (is_final ? "the result" : "the partial sum") + " from rank " +
              std::to_string(from.value) + " arrived " + std::to_string(kMostCorrupt) +
              " times with a wrong checksum: the program of the sender or of the receiver wrote to a buffer of the "
              "call before the call had ended, or the memory or the CPU of one of the two hosts is faulty";
  given_up_from_ = from;
  check_known(jobs);
  if (checks_ == 0) give_up(finished);
}

void Operation::give_up(Finished& finished) {
  finished.fault = Error{Status::kInternal, std::exchange(given_up_, {})};
  finished.suspect = given_up_from_;
}

void Operation::check(const JobName& name, BufferRef memory, std::uint64_t checksum, std::vector<KernelJob>& jobs) {
  ++checks_;
  start(jobs, name, VerifyJob{.from = memory, .expected = checksum, .again = true});
}

bool Operation::checked(Finished& finished, const Piece& piece, const JobResult& result) {
  LOCKSTEP_ASSERT(checks_ > 0);
  --checks_;
  if (!result.intact && !mutant(Mutant::kWrongForEver) && !mutant(Mutant::kChangeUnseen)) {
    given_up_.clear();
    if (!stopped_) {
      finished.fault = Error{Status::kInvalidArgument,
                             place_of(piece) +
                                 "a buffer of the call changed during the call: the program must not write to it "
                                 "before the call has ended (if the program does not, the memory or the CPU of the "
                                 "host is faulty)"};
    }
    return false;
  }
  if (!given_up_.empty() && checks_ == 0) give_up(finished);
  return true;
}

std::string Operation::place_of(const Piece& piece) {
  return "tensor " + std::to_string(piece.tensor) + ", chunk " + std::to_string(piece.owner) + ", from byte " +
         std::to_string(piece.offset) + ": ";
}

Error Operation::changed(const Piece& piece, std::string_view what) {
  return {Status::kInternal, place_of(piece) + std::string(what) +
                                 " changed in this host's memory after the checksum was verified: the program wrote to "
                                 "a buffer of the call, or the memory or the CPU of this host is faulty"};
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

void Operation::start(std::vector<KernelJob>& jobs, const JobName& name, const JobWork& work) {
  ++running_;
  jobs.push_back({name.token(), work});
}

void Operation::decode_some(std::vector<KernelJob>& jobs) {
  LOCKSTEP_ASSERT(stopped_ && complete());
  if (!keeps_input_ || (world_ == 1 && !multiplies_alone())) return;
  const std::size_t pieces = pieces_.size() - (mutant(Mutant::kLeftEncoded) && !pieces_.empty() ? 1 : 0);
  for (; decoded_ < pieces && running_ < kDecodedAtOnce; ++decoded_) {
    // In place, the result overwrites the input of the residual: update the residual first.
    if (!encoded_ || !update_residual(decoded_, jobs)) decode(decoded_, jobs);
  }
}

bool Operation::update_residual(std::size_t piece, std::vector<KernelJob>& jobs) {
  const Piece& whose = pieces_[piece];
  const BufferRef left = residual(whose);
  if (left.length == 0 || weight_ == 0 || world_ == 1) return false;
  // The owner's own contribution was added without encoding.
  const bool encodes = whose.owner != rank_.value;
  start(jobs, {piece, Phase::kReduceScatter, Purpose::kUpdateResidual},
        UpdateResidualJob{.from = input(whose),
                          .residual = left,
                          .count = elements_of(whose),
                          .departs = encodes ? whose.form(Phase::kReduceScatter).format : WireFormat::kNative,
                          .weight = weight_});
  return true;
}

void Operation::decode(std::size_t piece, std::vector<KernelJob>& jobs) {
  const Piece& whose = pieces_[piece];
  const bool alone = world_ == 1;
  if (!encoded_) {
    if (!in_place(whose)) return;  // the result is in its place
    return start(jobs, {piece, Phase::kAllGather, Purpose::kDecode},
                 CopyJob{.into = result(whose), .from = work(whose)});
  }
  start(jobs, {piece, Phase::kAllGather, Purpose::kDecode},
        DecodeJob{.into = result(whose),
                  .from = alone ? work(whose) : departure(whose, Phase::kAllGather),
                  .count = elements_of(whose),
                  .arrived = alone ? WireFormat::kNative : whose.form(Phase::kAllGather).format});
}

void Operation::decoded(std::size_t piece, const JobResult& result) {
  if (result.malformed && !damaged_) damaged_ = piece;
}

std::optional<Error> Operation::damage() const {
  if (!damaged_) return std::nullopt;
  return changed(pieces_[*damaged_], "the result");
}

}  // namespace lockstep::ring
