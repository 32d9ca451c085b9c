#include "core/ring/ring_operation.h"

#include <xxhash.h>

#include <algorithm>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/wire/limits.h"

namespace lockstep::ring {

using wire::Phase;

namespace {

constexpr Phase kPhases[] = {Phase::kReduceScatter, Phase::kAllGather};

}  // namespace

RingOperation::RingOperation(const peer::Request& request, Rank rank, std::uint32_t world, std::uint32_t root,
                             std::vector<std::uint64_t> stakes, Segmenting segmenting)
    : Operation(request, rank, world, root, std::move(stakes), segmenting), segments_(pieces_.size()) {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    for (const Phase phase : kPhases) {
      if (!has_phase(request.collective, phase)) continue;
      const Part part = part_of(phase, rank.value, piece.owner, world);
      Half& half = segments_[i].half[index_of(phase)];
      if (part.receives) half.arrival = Arrival::kExpected;
      if (part.sends) half.departure = Departure::kNotReady;
    }
    if (starts_here(piece)) own_.push_back(static_cast<std::uint32_t>(i));
  }
}

bool RingOperation::starts_here(const Piece& piece) const {
  const Phase first = reduces(request_.collective) ? Phase::kReduceScatter : Phase::kAllGather;
  return !part_of(first, rank_.value, piece.owner, world_).receives;
}

bool RingOperation::needs_backup(const Piece& piece, Phase phase, const Segment& segment) const {
  if (!in_place(piece) || segment.backed_up || encoded_) return false;
  if (phase == Phase::kAllGather && mutant(Mutant::kNotBackedUp)) return false;
  // All-gather never overwrites the owner's own place. On all other ranks reduce-scatter overwrites the place first.
  return phase == Phase::kReduceScatter || segment.half[0].arrival == Arrival::kNotOurs;
}

// A final arrives where the partial sum was. It proves that the partial sum went around the whole ring, our part
// included.
bool RingOperation::partial_has_passed(const Segment& segment) {
  const Half& partial = segment.half[index_of(Phase::kReduceScatter)];
  return (partial.arrival == Arrival::kNotOurs || partial.arrival == Arrival::kHere) &&
         (partial.departure == Departure::kNotOurs || partial.departure == Departure::kSent);
}

Operation::Place RingOperation::begin(Rank /*from*/, const wire::Segment& wanted, StreamId stream,
                                      std::vector<KernelJob>& jobs) {
  const std::size_t index = wanted.index.value;
  if (index >= pieces_.size()) return {Landing::kNonsense, {}};
  const Piece& piece = pieces_[index];
  Segment& segment = segments_[index];
  Half& half = segment.half[index_of(wanted.phase)];
  if (half.arrival == Arrival::kNotOurs || wanted.length != piece.form(wanted.phase).bytes) {
    return {Landing::kNonsense, {}};
  }
  if (stopped_) return {Landing::kSink, {}};
  if (wanted.phase == Phase::kAllGather) {
    take_back_repeated(index);
    if (!partial_has_passed(segment)) return {Landing::kNonsense, {}};
  }
  // the segment begins again while the backup job still runs
  if (half.arrival == Arrival::kBackingUp && half.stream == StreamId{}) {
    half.stream = stream;
    return {Landing::kLater, {}};
  }
  const bool again = half.arrival == Arrival::kHere && mutant(Mutant::kSegmentTwice);
  if (half.arrival != Arrival::kExpected && !again) return {Landing::kSink, {}};
  half.stream = stream;
  if (needs_backup(piece, wanted.phase, segment)) {
    half.arrival = Arrival::kBackingUp;
    KernelJob& job = start(jobs, JobKind::kCopy, Purpose::kBackUp, index, wanted.phase);
    job.from = work(piece);
    job.into = backup(piece);
    return {Landing::kLater, {}};
  }
  half.arrival = Arrival::kLanding;
  return {Landing::kPlace, arrival(piece, wanted.phase)};
}

void RingOperation::landed(Rank /*from*/, const wire::Segment& arrived, bool taken_back, std::uint64_t checksum,
                           std::vector<KernelJob>& jobs) {
  const std::size_t index = arrived.index.value;
  Segment& segment = segments_[index];
  Half& half = segment.half[index_of(arrived.phase)];
  LOCKSTEP_ASSERT(half.arrival == Arrival::kLanding);
  bytes_received_ += arrived.length;
  if (taken_back || stopped_) {
    half.arrival = Arrival::kExpected;
    return;
  }
  half.arrival = Arrival::kWorking;
  const Piece& piece = pieces_[index];
  if (arrived.phase == Phase::kAllGather) {
    const JobKind kind = encoded_ ? JobKind::kCheck : JobKind::kVerify;
    KernelJob& job = start(jobs, kind, Purpose::kArrived, index, arrived.phase);
    job.from = arrival(piece, arrived.phase);
    job.expected = checksum;
    return;
  }
  const bool last = piece.owner == rank_.value;
  const bool averages = (last || mutant(Mutant::kDividesAtEveryHop)) && request_.op == ReduceOp::kAvg;
  const JobKind kind = encoded_ ? JobKind::kRecode : JobKind::kFold;
  KernelJob& job = start(jobs, kind, Purpose::kArrived, index, arrived.phase);
  job.from = segment.early.length > 0 ? segment.early : arrival(piece, arrived.phase);
  job.expected = checksum;
  if (encoded_) {
    const Phase next = last ? Phase::kAllGather : Phase::kReduceScatter;
    job.own = input(piece);
    job.into = departure(piece, next);
    job.departs = piece.form(next).format;
    if (averages) job.total = total_;
    return;
  }
  job.own = in_place(piece) ? backup(piece) : input(piece);
  job.into = last ? result(piece) : work(piece);
  if (averages) job.divisor = world_;
}

bool RingOperation::take(const wire::Segment& arrived, BufferRef memory, std::uint64_t checksum, StreamId stream,
                         std::vector<KernelJob>& jobs) {
  const std::size_t index = arrived.index.value;
  if (!is_one_small_segment() || index >= pieces_.size() || arrived.phase != Phase::kReduceScatter) return false;
  Segment& segment = segments_[index];
  Half& half = segment.half[0];
  if (half.arrival == Arrival::kNotOurs || arrived.length != pieces_[index].form(arrived.phase).bytes) return false;
  if (stopped_ || half.arrival != Arrival::kExpected) return true;
  half.stream = stream;
  half.checksum = checksum;
  segment.early = memory;
  if (needs_backup(pieces_[index], arrived.phase, segment)) {
    half.arrival = Arrival::kBackingUp;
    KernelJob& job = start(jobs, JobKind::kCopy, Purpose::kBackUp, index, arrived.phase);
    job.from = work(pieces_[index]);
    job.into = backup(pieces_[index]);
    return true;
  }
  half.arrival = Arrival::kLanding;
  landed(upstream(), arrived, false, checksum, jobs);
  return true;
}

void RingOperation::stream_closed(StreamId stream) {
  for (Segment& segment : segments_) {
    for (Half& half : segment.half) {
      if (half.stream != stream || mutant(Mutant::kLandingOutlivesStream)) continue;
      if (half.arrival == Arrival::kLanding) half.arrival = Arrival::kExpected;
      if (half.arrival == Arrival::kBackingUp && segment.early.length == 0) half.stream = StreamId{};  // see job_done()
    }
  }
}

std::vector<std::uint64_t> RingOperation::have(Rank /*from*/) const {
  std::vector<std::uint64_t> have;
  for (const Phase phase : kPhases) {
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      const Arrival arrival = segments_[i].half[index_of(phase)].arrival;
      const bool here = arrival == Arrival::kWorking || arrival == Arrival::kHere;
      if (here && !mutant(Mutant::kSegmentTwice)) add_to(have, phase, i);
    }
  }
  return have;
}

bool RingOperation::grant(Rank /*by*/, std::span<const std::uint64_t> have, StripeIndex stripe, StreamId stream) {
  if (!can_be_have(have)) return false;
  granted_ = true;
  if (stopped_) return true;
  for (const Phase phase : kPhases) {
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      Half& half = segments_[i].half[index_of(phase)];
      if (half.departure != Departure::kSent || half.stripe != stripe || half.stream == stream) continue;
      if (mutant(Mutant::kResendsNothing) || has(have, phase, i)) continue;
      half.departure = Departure::kReady;
      half.again = true;  // the segment may have been unread in a buffer when the downstream neighbour sent its Ready
      ready_.push_back(i * 2 + index_of(phase));
    }
  }
  return true;
}

bool RingOperation::is_one_small_segment() const {
  return world_ > 1 && pieces_.size() == 1 && stakes_.empty() && request_.collective == wire::Collective::kAllReduce &&
         pieces_.front().length <= kWholeBytes && pieces_.front().owner == 0;
}

bool RingOperation::sends_partial() const { return segments_.front().half[0].departure != Departure::kNotOurs; }

void RingOperation::send_partial_again(StripeIndex stripe, StreamId stream) {
  Half& partial = segments_.front().half[0];
  if (stopped_ || partial.departure != Departure::kSent || partial.stripe != stripe || partial.stream == stream) return;
  if (segments_.front().half[1].arrival != Arrival::kExpected) return;  // the place already receives the final
  partial.departure = Departure::kReady;
  partial.again = true;
  ready_.push_back(0);
}

// The final has arrived, so our partial sum had arrived, too: cancel the repetition.
void RingOperation::take_back_repeated(std::size_t index) {
  Half& partial = segments_[index].half[0];
  if (partial.departure != Departure::kReady || !partial.again) return;
  partial.departure = Departure::kSent;
  std::erase(ready_, std::uint64_t{index} * 2);
}

std::optional<Operation::Outgoing> RingOperation::next(Rank /*to*/, StripeIndex stripe, StreamId stream) {
  if (!has_next()) return std::nullopt;
  const std::uint64_t code = ready_.front();
  ready_.pop_front();
  const std::size_t index = code / 2;
  const Phase phase = code % 2 == 0 ? Phase::kReduceScatter : Phase::kAllGather;
  Half& half = segments_[index].half[code % 2];
  LOCKSTEP_ASSERT(half.departure == Departure::kReady);
  half.departure = Departure::kSent;
  half.stripe = stripe;
  half.stream = stream;
  const Piece& piece = pieces_[index];
  const bool first_hop = half.arrival == Arrival::kNotOurs && starts_here(piece);
  if (first_hop && own_ready_ > 0) --own_ready_;
  bytes_sent_ += piece.form(phase).bytes;
  const bool raw = first_hop && phase == Phase::kReduceScatter && !encoded_;
  return Outgoing{phase, SegmentIndex{static_cast<std::uint32_t>(index)}, raw ? input(piece) : departure(piece, phase),
                  half.checksum};
}

void RingOperation::prepare(std::vector<KernelJob>& jobs) {
  if (stopped_) return;
  // A rank that is alone or has no receiver prepares everything at once. Any other rank prepares only segments that can
  // soon depart.
  const bool alone = world_ == 1;
  while (own_prepared_ < own_.size() && (alone || (granted_ && own_ready_ < kPreparedAhead))) {
    const std::size_t index = own_[own_prepared_++];
    const Piece& piece = pieces_[index];
    ++own_ready_;
    const BufferRef from = input(piece);
    const BufferRef into = result(piece);
    const bool copies = (alone || request_.collective == wire::Collective::kAllGather) && from != into;
    const Phase phase = reduces(request_.collective) ? Phase::kReduceScatter : Phase::kAllGather;
    if (encoded_ && !alone) {
      KernelJob& job = start(jobs, JobKind::kEncode, Purpose::kOwn, index, phase);
      job.from = from;
      job.into = departure(piece, phase);
      continue;
    }
    if (copies) {
      KernelJob& job = start(jobs, JobKind::kCopy, Purpose::kOwnCopy, index, phase);
      job.from = from;
      job.into = into;
      continue;
    }
    start(jobs, JobKind::kHash, Purpose::kOwn, index, phase).from = from;
  }
}

Operation::Finished RingOperation::job_done(JobToken token, const JobResult& result, std::vector<KernelJob>& jobs) {
  LOCKSTEP_ASSERT(running_ > 0);
  --running_;
  const auto [index, phase, purpose] = JobName::of(token);
  LOCKSTEP_ASSERT(index < segments_.size());
  Segment& segment = segments_[index];
  Half& half = segment.half[index_of(phase)];
  const Piece& piece = pieces_[index];
  Finished finished;
  switch (purpose) {
    case Purpose::kGather:
    case Purpose::kLeave: LOCKSTEP_UNREACHABLE();
    case Purpose::kDecode:
    case Purpose::kRestore: return finished;
    case Purpose::kBackUp:
      segment.backed_up = true;
      LOCKSTEP_ASSERT(half.arrival == Arrival::kBackingUp);
      if (!stopped_ && phase == Phase::kReduceScatter && segment.early.length > 0) {
        half.arrival = Arrival::kLanding;
        landed(upstream(), {{}, {}, phase, SegmentIndex{static_cast<std::uint32_t>(index)}, piece.length}, false,
               half.checksum, jobs);
        return finished;
      }
      if (stopped_ || half.stream == StreamId{}) {
        half.arrival = Arrival::kExpected;
        return finished;
      }
      half.arrival = Arrival::kLanding;
      finished.placeable = half.stream;
      finished.place = work(piece);
      return finished;
    case Purpose::kOwnCopy:
      if (!stopped_) start(jobs, JobKind::kHash, Purpose::kOwn, index, phase).from = this->result(piece);
      return finished;
    case Purpose::kOwn:
      if (result.not_finite && !mutant(Mutant::kOddElementsGo)) {
        finished.fault = not_finite(piece, *result.not_finite, false);
        return finished;
      }
      if (world_ == 1 || phase == Phase::kAllGather) finish_final(index, result.checksum);
      make_ready(index, phase, result.checksum);
      return finished;
    case Purpose::kArrived:
      finished.used_early = phase == Phase::kReduceScatter && segment.early.length > 0;
      if (finished.used_early) segment.early = {};
      if (!result.intact && !(mutant(Mutant::kLastUnchecked) && index + 1 == segments_.size())) {
        half.arrival = Arrival::kExpected;
        finished.stream = half.stream;
        take_corrupt(finished, half.corrupt, piece, phase, upstream());
        return finished;
      }
      half.arrival = Arrival::kHere;
      if (result.malformed) {
        finished.fault =
            Error{Status::kProtocolError, "the upstream neighbour sent bytes that are not a valid encoding in " +
                                              std::string(name_of(piece.form(phase).format))};
        return finished;
      }
      if (result.not_finite) {
        finished.fault = not_finite(piece, *result.not_finite, true);
        return finished;
      }
      make_ready(index, phase, result.checksum);
      if (phase == Phase::kAllGather) {
        finish_final(index, result.checksum);
      } else if (piece.owner == rank_.value) {
        finish_final(index, result.checksum);
        make_ready(index, Phase::kAllGather, result.checksum);
      }
      return finished;
  }
  LOCKSTEP_UNREACHABLE();
}

void RingOperation::finish_final(std::size_t index, std::uint64_t checksum) {
  LOCKSTEP_ASSERT(finals_missing_ > 0);
  --finals_missing_;
  segments_[index].half[1].checksum = checksum;
}

void RingOperation::make_ready(std::size_t index, Phase phase, std::uint64_t checksum) {
  Half& half = segments_[index].half[index_of(phase)];
  if (half.departure != Departure::kNotReady) return;
  half.checksum = checksum;
  half.departure = Departure::kReady;
  ready_.push_back(index * 2 + index_of(phase));
}

std::uint64_t RingOperation::result_hash() const {
  if (request_.collective == wire::Collective::kReduceScatter || pieces_.empty()) return 0;
  std::vector<std::uint64_t> checksums;
  checksums.reserve(segments_.size());
  for (const Segment& segment : segments_) checksums.push_back(segment.half[1].checksum);
  return XXH3_64bits(checksums.data(), checksums.size() * sizeof(std::uint64_t));
}

void RingOperation::restore(std::vector<KernelJob>& jobs) {
  LOCKSTEP_ASSERT(stopped_ && running_ == 0);
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    if (!segments_[i].backed_up) continue;
    KernelJob& job = start(jobs, JobKind::kCopy, Purpose::kRestore, i, Phase::kReduceScatter);
    job.from = backup(pieces_[i]);
    job.into = work(pieces_[i]);
    segments_[i].backed_up = false;
  }
}

}  // namespace lockstep::ring
