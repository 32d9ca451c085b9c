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

RingOperation::RingOperation(const Request& request, Rank rank, std::uint32_t world, std::uint32_t root,
                             std::vector<std::uint64_t> rank_parameters, Segmenting segmenting)
    : Operation(request, rank, world, root, std::move(rank_parameters), segmenting), segments_(pieces_.size()) {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    for (const Phase phase : kPhases) {
      if (!has_phase(request.collective, phase)) continue;
      const Part part = part_of(phase, rank.value, piece.owner, world);
      PhaseState& state = segments_[i].phases[index_of(phase)];
      if (part.receives) state.arrival = Arrival::kExpected;
      if (part.sends) state.departure = Departure::kNotReady;
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
  return phase == Phase::kReduceScatter || segment.phases[0].arrival == Arrival::kNotOurs;
}

// A final arrives where the partial sum was. It proves that the partial sum went around the whole ring, our part
// included.
bool RingOperation::partial_has_passed(const Segment& segment) {
  const PhaseState& partial = segment.phases[index_of(Phase::kReduceScatter)];
  return (partial.arrival == Arrival::kNotOurs || partial.arrival == Arrival::kHere) &&
         (partial.departure == Departure::kNotOurs || partial.departure == Departure::kSent);
}

Operation::SegmentPlace RingOperation::begin(Rank /*from*/, const wire::Segment& wanted, StreamId stream,
                                             std::vector<KernelJob>& jobs) {
  const std::size_t index = wanted.index.value;
  if (index >= pieces_.size()) return {Landing::kNonsense, {}};
  const Piece& piece = pieces_[index];
  Segment& segment = segments_[index];
  PhaseState& state = segment.phases[index_of(wanted.phase)];
  const bool fits = wanted.length == piece.form(wanted.phase).bytes || mutant(Mutant::kLengthBelieved);
  if (state.arrival == Arrival::kNotOurs || !fits) {
    return {Landing::kNonsense, {}};
  }
  if (stopped_) return {Landing::kSink, {}};
  if (wanted.phase == Phase::kAllGather) {
    take_back_repeated(index);
    if (!partial_has_passed(segment)) return {Landing::kNonsense, {}};
    if (segment.checks > 0 && state.arrival == Arrival::kExpected) {
      state.arrival = Arrival::kBackingUp;  // see check_done()
      state.stream = stream;
      return {Landing::kLater, {}};
    }
  }
  // the segment begins again while the backup job still runs
  if (state.arrival == Arrival::kBackingUp && state.stream == StreamId{}) {
    state.stream = stream;
    return {Landing::kLater, {}};
  }
  const bool again = state.arrival == Arrival::kHere && mutant(Mutant::kSegmentTwice);
  if (state.arrival != Arrival::kExpected && !again) return {Landing::kSink, {}};
  state.stream = stream;
  if (needs_backup(piece, wanted.phase, segment)) {
    state.arrival = Arrival::kBackingUp;
    back_up(index, wanted.phase, jobs);
    return {Landing::kLater, {}};
  }
  state.arrival = Arrival::kLanding;
  if (wanted.phase == Phase::kAllGather) segment.final_began = true;
  return {Landing::kPlace, arrival(piece, wanted.phase)};
}

void RingOperation::landed(Rank /*from*/, const wire::Segment& arrived, bool taken_back, std::uint64_t checksum,
                           std::vector<KernelJob>& jobs) {
  const std::size_t index = arrived.index.value;
  Segment& segment = segments_[index];
  PhaseState& state = segment.phases[index_of(arrived.phase)];
  LOCKSTEP_ASSERT(state.arrival == Arrival::kLanding);
  bytes_received_ += arrived.length;
  if (taken_back || stopped_) {
    state.arrival = Arrival::kExpected;
    return;
  }
  state.arrival = Arrival::kWorking;
  const bool final = arrived.phase == Phase::kAllGather;
  start(jobs, {index, arrived.phase, Purpose::kArrived},
        final ? verification(index, checksum) : addition(index, checksum));
}

void RingOperation::back_up(std::size_t index, Phase phase, std::vector<KernelJob>& jobs) {
  const Piece& piece = pieces_[index];
  start(jobs, {index, phase, Purpose::kBackUp}, CopyJob{.into = backup(piece), .from = work(piece)});
}

// Of a final that has arrived.
JobWork RingOperation::verification(std::size_t index, std::uint64_t checksum) const {
  const Piece& piece = pieces_[index];
  const BufferRef from = arrival(piece, Phase::kAllGather);
  if (!encoded_) return VerifyJob{.from = from, .expected = checksum};
  return CheckJob{
      .from = from, .expected = checksum, .count = elements_of(piece), .arrived = piece.form(Phase::kAllGather).format};
}

// Of this rank's contribution to a partial sum that has arrived.
JobWork RingOperation::addition(std::size_t index, std::uint64_t checksum) const {
  const Piece& piece = pieces_[index];
  const BufferRef early = segments_[index].early;
  const BufferRef from = early.length > 0 ? early : arrival(piece, Phase::kReduceScatter);
  const bool last = piece.owner == rank_.value;
  const bool averages = (last || mutant(Mutant::kDividesAtEveryHop)) && request_.op == ReduceOp::kAvg;
  if (!encoded_) {
    return FoldJob{.into = last ? result(piece) : work(piece),
                   .from = from,
                   .own = in_place(piece) ? backup(piece) : input(piece),
                   .type = request_.type,
                   .op = request_.op,
                   .divisor = averages ? world_ : 0,
                   .expected = checksum};
  }
  const Phase next = last ? Phase::kAllGather : Phase::kReduceScatter;
  return RecodeJob{.into = departure(piece, next),
                   .from = from,
                   .own = input(piece),
                   .expected = checksum,
                   .count = elements_of(piece),
                   .arrived = piece.form(Phase::kReduceScatter).format,
                   .departs = piece.form(next).format,
                   .weight = weight_,
                   .total = averages ? total_ : 0};
}

bool RingOperation::take(Rank from, const wire::Segment& arrived, BufferRef memory, std::uint64_t checksum,
                         StreamId stream, std::vector<KernelJob>& jobs) {
  const std::size_t index = arrived.index.value;
  if (!is_one_small_segment() || index >= pieces_.size() || arrived.phase != Phase::kReduceScatter) return false;
  Segment& segment = segments_[index];
  PhaseState& state = segment.phases[0];
  if (state.arrival == Arrival::kNotOurs || arrived.length != pieces_[index].form(arrived.phase).bytes) return false;
  if (stopped_ || state.arrival != Arrival::kExpected) return true;
  state.stream = stream;
  state.checksum = checksum;
  segment.early = memory;
  if (needs_backup(pieces_[index], arrived.phase, segment)) {
    state.arrival = Arrival::kBackingUp;
    back_up(index, arrived.phase, jobs);
    return true;
  }
  state.arrival = Arrival::kLanding;
  landed(from, arrived, false, checksum, jobs);
  return true;
}

void RingOperation::stream_closed(StreamId stream) {
  for (Segment& segment : segments_) {
    for (PhaseState& state : segment.phases) {
      if (state.stream != stream || mutant(Mutant::kLandingOutlivesStream)) continue;
      if (state.arrival == Arrival::kLanding) state.arrival = Arrival::kExpected;
      if (state.arrival == Arrival::kBackingUp && segment.early.length == 0)
        state.stream = StreamId{};  // see job_done()
    }
  }
}

std::vector<std::uint64_t> RingOperation::have(Rank /*from*/) const {
  std::vector<std::uint64_t> have;
  for (const Phase phase : kPhases) {
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      const Arrival arrival = segments_[i].phases[index_of(phase)].arrival;
      const bool here = arrival == Arrival::kWorking || arrival == Arrival::kHere;
      if (here && !mutant(Mutant::kSegmentTwice)) add_to(have, phase, i);
    }
  }
  return have;
}

bool RingOperation::grant(Rank /*by*/, std::span<const std::uint64_t> have, StripeIndex stripe, StreamId stream) {
  if (!can_be_have(have)) return false;
  asked_ = true;
  if (unasked_ && has(have, Phase::kReduceScatter, 0)) unasked_ = false;
  if (stopped_) return true;
  for (const Phase phase : kPhases) {
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      PhaseState& state = segments_[i].phases[index_of(phase)];
      if (state.departure != Departure::kSent || state.stripe != stripe || state.stream == stream) continue;
      if (mutant(Mutant::kResendsNothing) || has(have, phase, i)) continue;
      send_again(i, phase);
    }
  }
  return true;
}

// Rule 35. The segment may have been unread in a buffer when the downstream neighbour sent its Ready: a final that has
// begun to arrive proves that the neighbour has the partial sum.
void RingOperation::send_again(std::size_t index, Phase phase) {
  Segment& segment = segments_[index];
  if (phase == Phase::kReduceScatter && segment.final_began) return;
  segment.phases[index_of(phase)].departure = Departure::kChecking;
  segment.phases[index_of(phase)].again = true;
  unchecked_.push_back(index * 2 + index_of(phase));
}

bool RingOperation::is_one_small_segment() const {
  return world_ > 1 && pieces_.size() == 1 && rank_parameters_.empty() &&
         request_.collective == wire::Collective::kAllReduce && pieces_.front().length <= kWholeBytes &&
         pieces_.front().owner == 0;
}

bool RingOperation::sends_partial() const { return segments_.front().phases[0].departure != Departure::kNotOurs; }

void RingOperation::send_partial_again(Rank /*to*/, StripeIndex stripe, StreamId stream) {
  PhaseState& partial = segments_.front().phases[0];
  if (stopped_ || !unasked_ || partial.departure != Departure::kSent || partial.stripe != stripe ||
      partial.stream == stream)
    return;
  if (segments_.front().phases[1].arrival != Arrival::kExpected) return;  // the place already receives the final
  send_again(0, Phase::kReduceScatter);
}

// The final has arrived, so our partial sum had arrived, too: cancel the repetition (rule 35).
void RingOperation::take_back_repeated(std::size_t index) {
  PhaseState& partial = segments_[index].phases[0];
  const bool waits = partial.departure == Departure::kReady || partial.departure == Departure::kChecking;
  if (!waits || !partial.again) return;
  partial.departure = Departure::kSent;
  std::erase(ready_, std::uint64_t{index} * 2);
  std::erase(unchecked_, std::uint64_t{index} * 2);
}

BufferRef RingOperation::payload(std::size_t index, Phase phase) const {
  const Piece& piece = pieces_[index];
  const bool first_hop = segments_[index].phases[index_of(phase)].arrival == Arrival::kNotOurs && starts_here(piece);
  const bool raw = first_hop && phase == Phase::kReduceScatter && !encoded_;
  return raw ? input(piece) : departure(piece, phase);
}

std::optional<Operation::Outgoing> RingOperation::next(Rank /*to*/, StripeIndex stripe, StreamId stream) {
  if (!has_next()) return std::nullopt;
  const std::uint64_t code = ready_.front();
  ready_.pop_front();
  const std::size_t index = code / 2;
  const Phase phase = code % 2 == 0 ? Phase::kReduceScatter : Phase::kAllGather;
  PhaseState& state = segments_[index].phases[code % 2];
  LOCKSTEP_ASSERT(state.departure == Departure::kReady);
  state.departure = Departure::kSent;
  state.stripe = stripe;
  state.stream = stream;
  const Piece& piece = pieces_[index];
  const bool first_hop = state.arrival == Arrival::kNotOurs && starts_here(piece);
  if (first_hop && own_ready_ > 0) --own_ready_;
  bytes_sent_ += piece.form(phase).bytes;
  const bool eager = eager_ && phase == Phase::kReduceScatter;
  unasked_ = eager ? !asked_ : unasked_;
  return Outgoing{phase, SegmentIndex{static_cast<std::uint32_t>(index)}, payload(index, phase), state.checksum, eager};
}

void RingOperation::prepare(std::vector<KernelJob>& jobs) {
  if (stopped_) return;
  for (; !unchecked_.empty(); unchecked_.pop_front()) {
    check_segment(unchecked_.front() / 2, kPhases[unchecked_.front() % 2], jobs);
  }
  // A rank that is alone or has no receiver prepares everything at once. Any other rank prepares only segments that can
  // soon depart.
  const bool alone = world_ == 1;
  while (own_prepared_ < own_.size() && (alone || (may_send() && own_ready_ < kPreparedAhead))) {
    const std::size_t index = own_[own_prepared_++];
    const Piece& piece = pieces_[index];
    ++own_ready_;
    const BufferRef from = input(piece);
    const BufferRef into = result(piece);
    const bool copies = (alone || request_.collective == wire::Collective::kAllGather) && from != into;
    const Phase phase = reduces(request_.collective) ? Phase::kReduceScatter : Phase::kAllGather;
    if (encoded_ && (!alone || multiplies_alone())) {
      start(jobs, {index, phase, Purpose::kOwn},
            EncodeJob{.into = alone ? work(piece) : departure(piece, phase),
                      .from = from,
                      .residual = {},
                      .count = elements_of(piece),
                      .departs = alone ? WireFormat::kNative : piece.form(phase).format,
                      .weight = weight_});
      continue;
    }
    if (copies) {
      start(jobs, {index, phase, Purpose::kOwnCopy}, CopyJob{.into = into, .from = from});
      continue;
    }
    start(jobs, {index, phase, Purpose::kOwn}, HashJob{from});
  }
}

Operation::Finished RingOperation::job_done(JobToken token, const JobResult& result, std::vector<KernelJob>& jobs) {
  LOCKSTEP_ASSERT(running_ > 0);
  --running_;
  const auto [index, phase, purpose] = JobName::of(token);
  LOCKSTEP_ASSERT(index < segments_.size());
  Segment& segment = segments_[index];
  PhaseState& state = segment.phases[index_of(phase)];
  const Piece& piece = pieces_[index];
  Finished finished;
  switch (purpose) {
    case Purpose::kGather:
    case Purpose::kUpdateResidual: LOCKSTEP_UNREACHABLE();
    case Purpose::kDecode: decoded(index, result); return finished;
    case Purpose::kRestore: return finished;
    case Purpose::kCheck: return check_done(index, phase, result, jobs);
    case Purpose::kBackUp:
      segment.backed_up = true;
      LOCKSTEP_ASSERT(state.arrival == Arrival::kBackingUp);
      if (!stopped_ && phase == Phase::kReduceScatter && segment.early.length > 0) {
        state.arrival = Arrival::kLanding;
        landed(upstream(), {{}, {}, phase, SegmentIndex{static_cast<std::uint32_t>(index)}, piece.length}, false,
               state.checksum, jobs);
        return finished;
      }
      if (stopped_ || state.stream == StreamId{}) {
        state.arrival = Arrival::kExpected;
        return finished;
      }
      state.arrival = Arrival::kLanding;
      if (phase == Phase::kAllGather) segment.final_began = true;
      finished.placeable = state.stream;
      finished.place = work(piece);
      return finished;
    case Purpose::kOwnCopy:
      if (!stopped_) start(jobs, {index, phase, Purpose::kOwn}, HashJob{this->result(piece)});
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
      if (phase == Phase::kReduceScatter && segment.early.length > 0) {
        finished.used_early = {upstream(), SegmentIndex{static_cast<std::uint32_t>(index)}};
        segment.early = {};
      }
      if (!result.intact && !(mutant(Mutant::kLastUnchecked) && index + 1 == segments_.size())) {
        state.arrival = Arrival::kExpected;
        finished.stream = state.stream;
        take_corrupt(finished, state.corrupt, piece, phase, upstream(), jobs);
        return finished;
      }
      state.arrival = Arrival::kHere;
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

// ---- checks (rule 35) ----

void RingOperation::check_segment(std::size_t index, Phase phase, std::vector<KernelJob>& jobs) {
  Segment& segment = segments_[index];
  if (phase == Phase::kReduceScatter) ++segment.checks;
  check({index, phase, Purpose::kCheck}, payload(index, phase), segment.phases[index_of(phase)].checksum, jobs);
}

void RingOperation::check_known(std::vector<KernelJob>& jobs) {
  std::size_t checked = 0;
  for (std::size_t i = segments_.size(); i-- > 0 && checked < kMostChecked;) {
    for (const Phase phase : kPhases) {
      const PhaseState& state = segments_[i].phases[index_of(phase)];
      const bool overwritten = phase == Phase::kReduceScatter && segments_[i].final_began;
      const bool departs = state.departure == Departure::kReady || state.departure == Departure::kSent;
      const bool here = phase == Phase::kAllGather && state.arrival == Arrival::kHere;
      if (overwritten || (!departs && !here) || segments_[i].checks > 0) continue;
      check_segment(i, phase, jobs);
      ++checked;
    }
  }
}

Operation::Finished RingOperation::check_done(std::size_t index, Phase phase, const JobResult& result,
                                              std::vector<KernelJob>& jobs) {
  Segment& segment = segments_[index];
  PhaseState& state = segment.phases[index_of(phase)];
  Finished finished;
  const bool intact = checked(finished, pieces_[index], result);
  if (phase == Phase::kReduceScatter) {
    LOCKSTEP_ASSERT(segment.checks > 0);
    --segment.checks;
    place_final(index, finished, jobs);
  }
  if (!intact || state.departure != Departure::kChecking) return finished;
  state.departure = Departure::kReady;
  ready_.push_back(index * 2 + index_of(phase));
  return finished;
}

// The place of a final that waited for a check of the partial sum that it overwrites.
void RingOperation::place_final(std::size_t index, Finished& finished, std::vector<KernelJob>& jobs) {
  Segment& segment = segments_[index];
  PhaseState& state = segment.phases[index_of(Phase::kAllGather)];
  if (state.arrival != Arrival::kBackingUp || segment.checks > 0) return;
  if (stopped_ || state.stream == StreamId{}) {
    state.arrival = Arrival::kExpected;
    return;
  }
  if (needs_backup(pieces_[index], Phase::kAllGather, segment)) return back_up(index, Phase::kAllGather, jobs);
  state.arrival = Arrival::kLanding;
  segment.final_began = true;
  finished.placeable = state.stream;
  finished.place = arrival(pieces_[index], Phase::kAllGather);
}

void RingOperation::finish_final(std::size_t index, std::uint64_t checksum) {
  LOCKSTEP_ASSERT(finals_missing_ > 0);
  --finals_missing_;
  segments_[index].phases[1].checksum = checksum;
}

void RingOperation::make_ready(std::size_t index, Phase phase, std::uint64_t checksum) {
  PhaseState& state = segments_[index].phases[index_of(phase)];
  if (state.departure != Departure::kNotReady) return;
  state.checksum = checksum;
  state.departure = Departure::kReady;
  ready_.push_back(index * 2 + index_of(phase));
}

std::uint64_t RingOperation::result_hash() const {
  if (results_differ(request_.collective) || pieces_.empty()) return 0;
  std::vector<std::uint64_t> checksums;
  checksums.reserve(segments_.size());
  for (const Segment& segment : segments_) checksums.push_back(segment.phases[1].checksum);
  return XXH3_64bits(checksums.data(), checksums.size() * sizeof(std::uint64_t));
}

void RingOperation::restore(std::vector<KernelJob>& jobs) {
  LOCKSTEP_ASSERT(stopped_ && running_ == 0);
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    if (!segments_[i].backed_up) continue;
    start(jobs, {i, Phase::kReduceScatter, Purpose::kRestore},
          CopyJob{.into = work(pieces_[i]), .from = backup(pieces_[i])});
    segments_[i].backed_up = false;
  }
}

}  // namespace lockstep::ring
