#include "core/ring/exchange_operation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/wire/limits.h"

namespace lockstep::ring {

using wire::Phase;

namespace {

// Where the block for a peer begins in send, in bytes.
std::uint64_t send_offset_of(const Request& request, PeerId to) {
  std::uint64_t begin = 0;
  for (const Block& block : request.blocks) {
    if (block.to == to) return begin * size_of(request.type);
    begin += block.count;
  }
  return 0;
}

// Where the block of each rank begins in recv, in bytes.
std::vector<std::uint64_t> recv_offsets_of(std::span<const std::uint64_t> sizes) {
  std::vector<std::uint64_t> offsets(sizes.size());
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t rank = mutant(Mutant::kBlocksReversed) ? sizes.size() - 1 - i : i;
    offsets[rank] = begin;
    begin += sizes[rank];
  }
  return offsets;
}

}  // namespace

ExchangeOperation::ExchangeOperation(const Request& request, std::span<const PeerId> ring, Rank rank,
                                     std::vector<std::uint64_t> rank_parameters, Segmenting segmenting)
    : Operation(request, rank, static_cast<std::uint32_t>(ring.size()), 0, std::move(rank_parameters), segmenting),
      others_(ring.size()) {
  LOCKSTEP_ASSERT(rank_parameters_.size() == world_ && request.tensors.size() == 1);
  const auto element = static_cast<std::uint32_t>(size_of(request.type));
  const std::vector<std::uint64_t> offsets = recv_offsets_of(rank_parameters_);
  const auto append = [](std::vector<Piece>& pieces, const std::vector<Piece>& more) {
    pieces.insert(pieces.end(), more.begin(), more.end());
  };
  for (std::uint32_t other = 0; other < world_; ++other) {
    first_arrival_.push_back(arrival_pieces_.size());
    first_departure_.push_back(departure_pieces_.size());
    const std::uint64_t bytes = block_bytes_to(request, ring[other]);
    const bool first_again = request.collective == wire::Collective::kScatter && mutant(Mutant::kScattersFirstBlock);
    const std::uint64_t from = first_again ? 0 : send_offset_of(request, ring[other]);
    if (other == rank.value) {
      LOCKSTEP_ASSERT(bytes == rank_parameters_[other]);
      const Tensor& tensor = request.tensors.front();
      if (bytes > 0 && !mutant(Mutant::kOwnBlockForgotten))
        own_block_ = {tensor.send.slice(from, bytes), tensor.recv.slice(offsets[other], bytes)};
      continue;
    }
    append(arrival_pieces_, cut_block(other, offsets[other], rank_parameters_[other], element, world_, segmenting));
    append(departure_pieces_, cut_block(other, from, bytes, element, world_, segmenting));
  }
  first_arrival_.push_back(arrival_pieces_.size());
  first_departure_.push_back(departure_pieces_.size());
  arrivals_.resize(arrival_pieces_.size());
  departures_.resize(departure_pieces_.size());
  finals_missing_ = arrivals_.size() + (own_block_.from.length > 0 ? 1 : 0);
}

// The sizes come from other ranks, which may lie.
std::optional<Error> ExchangeOperation::validate(const Request& request, std::span<const PeerId> ring, Rank rank,
                                                 std::span<const std::uint64_t> rank_parameters,
                                                 Segmenting segmenting) {
  const auto world = static_cast<std::uint32_t>(ring.size());
  const bool sends_out_of_turn =
      request.collective == wire::Collective::kScatter && request.root != ring[rank.value] && !request.blocks.empty();
  if (sends_out_of_turn) return Error{Status::kInvalidArgument, "scatter: only the root has blocks to send"};
  if (auto refusal = validate_room(request.tensors.front().recv.length, rank_parameters)) return refusal;
  const auto element = static_cast<std::uint32_t>(size_of(request.type));
  std::uint64_t segments = 0;
  for (std::uint32_t other = 0; other < world; ++other) {
    segments += segments_in_block(rank_parameters[other], element, world, segmenting);
    segments += segments_in_block(block_bytes_to(request, ring[other]), element, world, segmenting);
  }
  return validate_segments(segments);
}

BufferRef ExchangeOperation::place_of(std::size_t arrival) const {
  const Piece& piece = arrival_pieces_[arrival];
  return request_.tensors.front().recv.slice(piece.offset, piece.length);
}

Operation::SegmentPlace ExchangeOperation::begin(Rank from, const wire::Segment& wanted, StreamId stream,
                                                 std::vector<KernelJob>& /*jobs*/) {
  if (wanted.phase != Phase::kAllGather || wanted.index.value >= arrivals_from(from)) return {Landing::kNonsense, {}};
  const std::size_t at = first_arrival_[from.value] + wanted.index.value;
  if (wanted.length != arrival_pieces_[at].length) return {Landing::kNonsense, {}};
  Arriving& arriving = arrivals_[at];
  if (stopped_ || arriving.state != Arrival::kExpected) return {Landing::kSink, {}};
  arriving.state = Arrival::kLanding;
  arriving.on = stream;
  return {Landing::kPlace, place_of(at)};
}

void ExchangeOperation::landed(Rank from, const wire::Segment& arrived, bool taken_back, std::uint64_t checksum,
                               std::vector<KernelJob>& jobs) {
  const std::size_t at = first_arrival_[from.value] + arrived.index.value;
  Arriving& arriving = arrivals_[at];
  LOCKSTEP_ASSERT(arriving.state == Arrival::kLanding);
  bytes_received_ += arrived.length;
  if (taken_back || stopped_) {
    arriving.state = Arrival::kExpected;
    return;
  }
  arriving.state = Arrival::kWorking;
  start(jobs, {at, Phase::kAllGather, Purpose::kArrived}, VerifyJob{.from = place_of(at), .expected = checksum});
}

void ExchangeOperation::stream_closed(StreamId stream) {
  if (mutant(Mutant::kLandingOutlivesStream)) return;
  for (Arriving& arriving : arrivals_) {
    if (arriving.state == Arrival::kLanding && arriving.on == stream) arriving.state = Arrival::kExpected;
  }
}

// One bit for each segment of the sender's block.
std::vector<std::uint64_t> ExchangeOperation::have(Rank from) const {
  std::vector<std::uint64_t> have;
  for (std::size_t i = 0; i < arrivals_from(from); ++i) {
    const Arrival state = arrivals_[first_arrival_[from.value] + i].state;
    if (state != Arrival::kWorking && state != Arrival::kHere) continue;
    add_bit(have, i, arrivals_from(from));
  }
  return have;
}

bool ExchangeOperation::grant(Rank by, std::span<const std::uint64_t> have, StripeIndex stripe, StreamId stream) {
  const std::size_t segments = departures_to(by);
  if (!is_bit_set(have, segments)) return false;
  Other& other = others_[by.value];
  other.granted = true;
  if (stopped_) return true;
  for (std::size_t i = 0; i < segments; ++i) {
    const std::size_t at = first_departure_[by.value] + i;
    Departing& departing = departures_[at];
    if (departing.state != Departure::kSent || departing.stripe != stripe || departing.on == stream) continue;
    if (has_bit(have, i) || mutant(Mutant::kResendsNothing)) continue;
    departing.state = Departure::kChecking;
    departing.again = true;  // the segment may have been unread in a buffer when the other rank sent its Ready
    unchecked_.push_back(static_cast<std::uint32_t>(at));
  }
  return true;
}

bool ExchangeOperation::has_next() const {
  return std::any_of(others_.begin(), others_.end(), [&](const Other& other) { return may_go(other); });
}

bool ExchangeOperation::has_next(Rank to) const { return may_go(others_[to.value]); }

std::optional<Operation::Outgoing> ExchangeOperation::next(Rank to, StripeIndex stripe, StreamId stream) {
  if (!has_next(to)) return std::nullopt;
  Other& other = others_[to.value];
  const std::size_t at = other.ready.front();
  other.ready.pop_front();
  Departing& departing = departures_[at];
  LOCKSTEP_ASSERT(departing.state == Departure::kReady);
  departing.state = Departure::kSent;
  departing.stripe = stripe;
  departing.on = stream;
  if (!departing.again) --other.ahead;
  const Piece& piece = departure_pieces_[at];
  bytes_sent_ += piece.length;
  return Outgoing{Phase::kAllGather, SegmentIndex{static_cast<std::uint32_t>(at - first_departure_[to.value])},
                  input(piece), departing.checksum};
}

// Every rank begins with the next rank of the ring, so that ranks do not all send to the same rank first.
void ExchangeOperation::prepare(std::vector<KernelJob>& jobs) {
  if (stopped_) return;
  prepare_own(jobs);
  for (; !unchecked_.empty(); unchecked_.pop_front()) {
    const std::uint32_t at = unchecked_.front();
    check({at, Phase::kAllGather, Purpose::kCheck}, input(departure_pieces_[at]), departures_[at].checksum, jobs);
  }
  for (std::uint32_t step = 1; step < world_; ++step) prepare_for((rank_.value + step) % world_, jobs);
}

void ExchangeOperation::prepare_own(std::vector<KernelJob>& jobs) {
  if (std::exchange(own_begun_, true) || own_block_.from.length == 0) return;
  start(jobs, {0, Phase::kAllGather, Purpose::kOwnCopy}, CopyJob{.into = own_block_.into, .from = own_block_.from});
}

void ExchangeOperation::prepare_for(std::uint32_t to, std::vector<KernelJob>& jobs) {
  Other& other = others_[to];
  if (!other.granted) return;
  while (other.prepared < departures_to(Rank{to}) && other.ahead < kPreparedAhead) {
    const std::size_t at = first_departure_[to] + other.prepared++;
    ++other.ahead;
    start(jobs, {at, Phase::kAllGather, Purpose::kOwn}, HashJob{input(departure_pieces_[at])});
  }
}

Operation::Finished ExchangeOperation::job_done(JobToken token, const JobResult& result, std::vector<KernelJob>& jobs) {
  LOCKSTEP_ASSERT(running_ > 0);
  --running_;
  const auto [index, phase, purpose] = JobName::of(token);
  Finished finished;
  switch (purpose) {
    case Purpose::kOwnCopy: --finals_missing_; return finished;
    case Purpose::kOwn: {
      Departing& departing = departures_[index];
      LOCKSTEP_ASSERT(departing.state == Departure::kNotReady);
      departing.checksum = result.checksum;
      departing.state = Departure::kReady;
      others_[departure_pieces_[index].owner].ready.push_back(static_cast<std::uint32_t>(index));
      return finished;
    }
    case Purpose::kArrived: {
      Arriving& arriving = arrivals_[index];
      if (!result.intact) {
        const Piece& piece = arrival_pieces_[index];
        arriving.state = Arrival::kExpected;
        finished.stream = arriving.on;
        take_corrupt(finished, arriving.corrupt, piece, phase, Rank{piece.owner}, jobs);
        return finished;
      }
      arriving.state = Arrival::kHere;
      LOCKSTEP_ASSERT(finals_missing_ > 0);
      --finals_missing_;
      return finished;
    }
    case Purpose::kCheck: {
      Departing& departing = departures_[index];
      if (!checked(finished, departure_pieces_[index], result) || departing.state != Departure::kChecking)
        return finished;
      departing.state = Departure::kReady;
      others_[departure_pieces_[index].owner].ready.push_back(static_cast<std::uint32_t>(index));
      return finished;
    }
    case Purpose::kBackUp:
    case Purpose::kGather:
    case Purpose::kUpdateResidual:
    case Purpose::kDecode:
    case Purpose::kRestore: LOCKSTEP_UNREACHABLE();
  }
  LOCKSTEP_UNREACHABLE();
}

void ExchangeOperation::check_known(std::vector<KernelJob>& jobs) {
  std::size_t checked = 0;
  for (std::size_t at = departures_.size(); at-- > 0 && checked < kMostChecked;) {
    const Departing& departing = departures_[at];
    if (departing.state != Departure::kReady && departing.state != Departure::kSent) continue;
    check({at, Phase::kAllGather, Purpose::kCheck}, input(departure_pieces_[at]), departing.checksum, jobs);
    ++checked;
  }
}

}  // namespace lockstep::ring
