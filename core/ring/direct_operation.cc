#include "core/ring/direct_operation.h"

#include <xxhash.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/buffers/buffer_ref.h"
#include "core/wire/limits.h"

namespace lockstep::ring {

using wire::Phase;

DirectOperation::DirectOperation(const Request& request, Rank rank, std::uint32_t world,
                                 std::vector<std::uint64_t> rank_parameters, Segmenting segmenting)
    : Operation(request, rank, world, 0, std::move(rank_parameters), segmenting),
      owned_(world),
      finals_(pieces_.size()),
      others_(world) {
  LOCKSTEP_ASSERT(world > 1);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    std::vector<std::uint32_t>& owned = owned_[piece.owner];
    ordinals_.push_back(static_cast<std::uint32_t>(owned.size()));
    owned.push_back(static_cast<std::uint32_t>(i));
    first_.push_back(static_cast<std::uint32_t>(piece_of_.size()));
    piece_of_.insert(piece_of_.end(), is_mine(i) ? world - 1 : 1, static_cast<std::uint32_t>(i));
    if (is_mine(i)) finals_[i].missing = world - 1;
    room_each_ =
        std::max<std::uint64_t>(room_each_, std::uint64_t{piece.form(Phase::kReduceScatter).bytes} * (world - 1));
  }
  exchanges_.resize(piece_of_.size());
  if (room_each_ == 0) return;
  turns_ = segmenting.room / room_each_;
  if (segmenting.turns != 0) turns_ = std::min<std::uint64_t>(turns_, segmenting.turns);
  LOCKSTEP_ASSERT(turns_ > 0);  // Operation::validate() has checked
}

Rank DirectOperation::other_of(std::size_t exchange) const {
  const std::size_t piece = piece_of_[exchange];
  const std::uint32_t owner = pieces_[piece].owner;
  if (!is_mine(piece)) return Rank{owner};
  return Rank{static_cast<std::uint32_t>((owner + 1 + exchange - first_[piece]) % world_)};
}

// Whether there is room for contributions to this piece. The piece that used the room before must have its final.
bool DirectOperation::in_turn(std::size_t piece) const {
  const std::uint32_t ordinal = ordinals_[piece];
  return ordinal < turns_ || finals_[owned_[pieces_[piece].owner][ordinal - turns_]].here || mutant(Mutant::kOutOfTurn);
}

BufferRef DirectOperation::room_of(std::size_t piece) const {
  const std::uint64_t bytes = std::uint64_t{pieces_[piece].form(Phase::kReduceScatter).bytes} * (world_ - 1);
  return request_.scratch.slice(scratch_offsets_.back() + ordinals_[piece] % turns_ * room_each_, bytes);
}

BufferRef DirectOperation::landing(std::size_t piece, Rank from) const {
  if (!is_mine(piece)) return departure(pieces_[piece], Phase::kAllGather);
  const std::uint32_t bytes = pieces_[piece].form(Phase::kReduceScatter).bytes;
  return room_of(piece).slice(std::uint64_t{bytes} * hop_of(from), bytes);
}

// A contribution shows that its sender has launched the round: it has memory for all segments that we send.
void DirectOperation::launched(Rank by, std::vector<KernelJob>& jobs) {
  if (!std::exchange(others_[by.value].granted, true)) prepare_for(by.value, jobs);
}

Operation::Place DirectOperation::begin(Rank from, const wire::Segment& wanted, StreamId stream,
                                        std::vector<KernelJob>& jobs) {
  const std::size_t index = wanted.index.value;
  if (index >= pieces_.size() || wanted.length != pieces_[index].form(wanted.phase).bytes) {
    return {Landing::kNonsense, {}};
  }
  const bool contributes = wanted.phase == Phase::kReduceScatter;
  if (contributes ? !is_mine(index) : pieces_[index].owner != from.value) return {Landing::kNonsense, {}};
  if (contributes) launched(from, jobs);
  if (stopped_) return {Landing::kSink, {}};
  const std::size_t at = exchange_of(index, from);
  Exchange& exchange = exchanges_[at];
  if (contributes) {
    if (!in_turn(index)) return {Landing::kNonsense, {}};
  } else {
    take_back_repeated(at);
    if (exchange.departure != Departure::kSent) return {Landing::kNonsense, {}};  // a final without our contribution
  }
  const bool waits = exchange.arrival == Arrival::kBackingUp && exchange.from == StreamId{};
  if (exchange.arrival != Arrival::kExpected && !waits) return {Landing::kSink, {}};
  exchange.from = stream;
  if (!contributes && exchange.checks > 0) {
    exchange.arrival = Arrival::kBackingUp;  // see check_done()
    return {Landing::kLater, {}};
  }
  exchange.arrival = Arrival::kLanding;
  exchange.final_began = !contributes;
  return {Landing::kPlace, landing(index, from)};
}

void DirectOperation::landed(Rank from, const wire::Segment& arrived, bool taken_back, std::uint64_t checksum,
                             std::vector<KernelJob>& jobs) {
  const std::size_t index = arrived.index.value;
  const std::size_t at = exchange_of(index, from);
  Exchange& exchange = exchanges_[at];
  LOCKSTEP_ASSERT(exchange.arrival == Arrival::kLanding);
  bytes_received_ += arrived.length;
  if (taken_back || stopped_) {
    exchange.arrival = Arrival::kExpected;
    return;
  }
  exchange.arrival = Arrival::kWorking;
  start(jobs, {at, arrived.phase, Purpose::kArrived},
        verification(index, arrived.phase, landing(index, from), checksum));
}

// Of a contribution or a final that has arrived.
JobWork DirectOperation::verification(std::size_t piece, Phase phase, BufferRef memory, std::uint64_t checksum) const {
  if (!encoded_) return VerifyJob{.from = memory, .expected = checksum};
  return CheckJob{.from = memory,
                  .expected = checksum,
                  .count = elements_of(pieces_[piece]),
                  .arrived = pieces_[piece].form(phase).format};
}

bool DirectOperation::take(Rank from, const wire::Segment& arrived, BufferRef memory, std::uint64_t checksum,
                           StreamId stream, std::vector<KernelJob>& jobs) {
  const std::size_t index = arrived.index.value;
  if (index >= pieces_.size() || arrived.phase != Phase::kReduceScatter || !is_mine(index) || !in_turn(index))
    return false;
  if (arrived.length != pieces_[index].form(arrived.phase).bytes) return false;
  launched(from, jobs);
  const std::size_t at = exchange_of(index, from);
  Exchange& exchange = exchanges_[at];
  if (stopped_ || exchange.arrival != Arrival::kExpected) return true;
  exchange.arrival = Arrival::kWorking;
  exchange.from = stream;
  exchange.stated = checksum;
  start(jobs, {at, arrived.phase, Purpose::kOwnCopy}, CopyJob{.into = landing(index, from), .from = memory});
  return true;
}

void DirectOperation::stream_closed(StreamId stream) {
  if (mutant(Mutant::kLandingOutlivesStream)) return;
  for (Exchange& exchange : exchanges_) {
    if (exchange.from != stream) continue;
    if (exchange.arrival == Arrival::kLanding) exchange.arrival = Arrival::kExpected;
    if (exchange.arrival == Arrival::kBackingUp) exchange.from = StreamId{};
  }
}

std::vector<std::uint64_t> DirectOperation::have(Rank from) const {
  std::vector<std::uint64_t> have;
  for (const std::uint32_t owner : {rank_.value, from.value}) {
    for (const std::uint32_t piece : owned_[owner]) {
      const Arrival arrival = exchanges_[exchange_of(piece, from)].arrival;
      if (arrival != Arrival::kWorking && arrival != Arrival::kHere) continue;
      add_to(have, phase_to(owner == rank_.value), piece);
    }
  }
  return have;
}

bool DirectOperation::grant(Rank by, std::span<const std::uint64_t> have, StripeIndex stripe, StreamId stream) {
  if (!can_be_have(have)) return false;
  Other& other = others_[by.value];
  other.granted = true;
  if (stopped_) return true;
  for (const std::uint32_t owner : {rank_.value, by.value}) {
    for (const std::uint32_t piece : owned_[owner]) {
      const std::size_t at = exchange_of(piece, by);
      Exchange& exchange = exchanges_[at];
      const bool arrived = has(have, phase_to(owner == by.value), piece);
      if (arrived) exchange.eager = false;
      if (exchange.departure != Departure::kSent || exchange.stripe != stripe || exchange.on == stream) continue;
      if (arrived || mutant(Mutant::kResendsNothing)) continue;
      send_again(at);
    }
  }
  return true;
}

// Rule 35. The segment may have been unread in a buffer when the other rank sent its Ready: a final that has begun to
// arrive proves that the other rank has the contribution.
void DirectOperation::send_again(std::size_t at) {
  Exchange& exchange = exchanges_[at];
  if (exchange.final_began) return;
  exchange.departure = Departure::kChecking;
  exchange.again = true;
  unchecked_.push_back(static_cast<std::uint32_t>(at));
}

// The rank may not have launched the round, and then says no Ready that would tell what it has; or it said one before
// this stream was up here. A copy of what it has goes to the sink.
void DirectOperation::send_partial_again(Rank to, StripeIndex stripe, StreamId stream) {
  if (stopped_) return;
  for (const std::uint32_t piece : owned_[to.value]) {
    const Exchange& exchange = exchanges_[first_[piece]];
    if (exchange.departure != Departure::kSent || !exchange.eager) continue;
    if (exchange.stripe != stripe || exchange.on == stream) continue;
    send_again(first_[piece]);
  }
}

std::uint32_t DirectOperation::eager_segments() const {
  std::size_t most = 0;
  for (std::uint32_t to = 0; to < world_; ++to) {
    if (to != rank_.value) most = std::max(most, owned_[to].size());
  }
  const bool fits = std::ranges::all_of(
      pieces_, [](const Piece& piece) { return piece.form(Phase::kReduceScatter).bytes <= kEarlySlotBytes; });
  return fits && most <= turns_ ? static_cast<std::uint32_t>(most) : 0;
}

// The final has arrived, so our contribution had arrived, too: cancel the repetition (rule 35).
void DirectOperation::take_back_repeated(std::size_t at) {
  Exchange& exchange = exchanges_[at];
  const bool waits = exchange.departure == Departure::kReady || exchange.departure == Departure::kChecking;
  if (!waits || !exchange.again) return;
  exchange.departure = Departure::kSent;
  std::erase(others_[other_of(at).value].ready, static_cast<std::uint32_t>(at));
  std::erase(unchecked_, static_cast<std::uint32_t>(at));
}

// An encoded contribution lies at the end of the room, where partial sums arrive, apart from its final.
BufferRef DirectOperation::payload(std::size_t exchange) const {
  const Piece& piece = pieces_[piece_of_[exchange]];
  if (piece.owner == rank_.value) return departure(piece, Phase::kAllGather);
  return encoded_ ? arrival(piece, Phase::kReduceScatter) : input(piece);
}

bool DirectOperation::has_next() const {
  return std::any_of(others_.begin(), others_.end(), [&](const Other& other) { return may_go(other); });
}

bool DirectOperation::has_next(Rank to) const { return may_go(others_[to.value]); }

std::optional<Operation::Outgoing> DirectOperation::next(Rank to, StripeIndex stripe, StreamId stream) {
  if (!has_next(to)) return std::nullopt;
  Other& other = others_[to.value];
  const std::size_t at = other.ready.front();
  other.ready.pop_front();
  Exchange& exchange = exchanges_[at];
  LOCKSTEP_ASSERT(exchange.departure == Departure::kReady);
  exchange.departure = Departure::kSent;
  exchange.stripe = stripe;
  exchange.on = stream;
  const std::size_t index = piece_of_[at];
  const Piece& piece = pieces_[index];
  const bool contributes = !is_mine(index);
  if (contributes && !exchange.again) --other.ahead;
  exchange.eager = contributes && !other.granted;
  const Phase phase = phase_to(contributes);
  bytes_sent_ += piece.form(phase).bytes;
  return Outgoing{phase, SegmentIndex{static_cast<std::uint32_t>(index)}, payload(at), exchange.checksum,
                  exchange.eager};
}

// Every rank begins with the next rank of the ring, so that ranks do not all send to the same rank first.
void DirectOperation::prepare(std::vector<KernelJob>& jobs) {
  for (; !stopped_ && !unchecked_.empty(); unchecked_.pop_front()) check_exchange(unchecked_.front(), jobs);
  for (std::uint32_t step = 1; step < world_; ++step) prepare_for((rank_.value + step) % world_, jobs);
}

void DirectOperation::prepare_for(std::uint32_t to, std::vector<KernelJob>& jobs) {
  Other& other = others_[to];
  if (stopped_ || !(other.granted || eager_)) return;
  while (other.prepared < owned_[to].size() && other.ahead < kPreparedAhead && in_turn(owned_[to][other.prepared])) {
    const std::size_t index = owned_[to][other.prepared++];
    ++other.ahead;
    const Piece& piece = pieces_[index];
    const JobName name{first_[index], Phase::kReduceScatter, Purpose::kOwn};
    if (!encoded_) {
      start(jobs, name, HashJob{input(piece)});
      continue;
    }
    start(jobs, name,
          EncodeJob{.into = arrival(piece, Phase::kReduceScatter),
                    .from = input(piece),
                    .residual = residual(piece),
                    .count = elements_of(piece),
                    .departs = piece.form(Phase::kReduceScatter).format,
                    .weight = weight_});
  }
}

// All contributions to one of our pieces lie side by side.
void DirectOperation::gather(std::size_t index, std::vector<KernelJob>& jobs) {
  const Piece& piece = pieces_[index];
  const JobName name{index, Phase::kReduceScatter, Purpose::kGather};
  if (!encoded_) {
    return start(jobs, name,
                 FoldAllJob{.into = departure(piece, Phase::kAllGather),
                            .from = room_of(index),
                            .own = input(piece),
                            .type = request_.type,
                            .op = request_.op,
                            .divisor = request_.op == ReduceOp::kAvg ? world_ : 0});
  }
  start(jobs, name,
        GatherJob{.into = departure(piece, Phase::kAllGather),
                  .from = room_of(index),
                  .own = input(piece),
                  .residual = residual(piece),
                  .count = elements_of(piece),
                  .arrived = piece.form(Phase::kReduceScatter).format,
                  .departs = piece.form(Phase::kAllGather).format,
                  .weight = weight_,
                  .total = total_});
}

Operation::Finished DirectOperation::job_done(JobToken token, const JobResult& result, std::vector<KernelJob>& jobs) {
  LOCKSTEP_ASSERT(running_ > 0);
  --running_;
  const JobName name = JobName::of(token);
  Finished finished;
  switch (name.purpose) {
    case Purpose::kBackUp:
    case Purpose::kRestore: LOCKSTEP_UNREACHABLE();
    case Purpose::kOwnCopy: {  // of a contribution that came early
      Exchange& exchange = exchanges_[name.index];
      const std::size_t index = piece_of_[name.index];
      const Rank from = other_of(name.index);
      finished.used_early = {from, SegmentIndex{static_cast<std::uint32_t>(index)}};
      bytes_received_ += pieces_[index].form(name.phase).bytes;
      if (stopped_) {
        exchange.arrival = Arrival::kExpected;
      } else {
        start(jobs, {name.index, name.phase, Purpose::kArrived},
              verification(index, name.phase, landing(index, from), exchange.stated));
      }
      return finished;
    }
    case Purpose::kUpdateResidual:
      if (stopped_) decode(name.index, jobs);
      return finished;
    case Purpose::kDecode: decoded(name.index, result); return finished;
    case Purpose::kCheck: return check_done(name.index, result);
    case Purpose::kOwn:
      if (result.not_finite && !mutant(Mutant::kOddElementsGo)) {
        finished.fault = not_finite(pieces_[piece_of_[name.index]], *result.not_finite, false);
        return finished;
      }
      make_ready(name.index, result.checksum);
      if (mutant(Mutant::kLeavesAtOnce)) update_residual(piece_of_[name.index], jobs);
      return finished;
    case Purpose::kArrived: {
      Exchange& exchange = exchanges_[name.index];
      const std::size_t index = piece_of_[name.index];
      const Rank from = other_of(name.index);
      if (!result.intact) {
        exchange.arrival = Arrival::kExpected;
        finished.stream = exchange.from;
        take_corrupt(finished, exchange.corrupt, pieces_[index], name.phase, from, jobs);
        return finished;
      }
      exchange.arrival = Arrival::kHere;
      if (result.malformed) {
        finished.fault = Error{Status::kProtocolError,
                               "rank " + std::to_string(from.value) + " sent bytes that are not a valid encoding in " +
                                   std::string(name_of(pieces_[index].form(name.phase).format))};
        return finished;
      }
      if (name.phase == Phase::kAllGather) {
        finish_final(index, result.checksum);
        prepare_for(from.value, jobs);  // there is room for its next piece
      } else if (--finals_[index].missing == 0 && !stopped_) {
        gather(index, jobs);
      }
      return finished;
    }
    case Purpose::kGather:
      if (result.malformed) {
        finished.fault = changed(pieces_[name.index], "a contribution");
        return finished;
      }
      if (result.not_finite) {
        finished.fault = not_finite(pieces_[name.index], *result.not_finite, true);
        return finished;
      }
      finish_final(name.index, result.checksum);
      for (std::uint32_t hop = 0; hop + 1 < world_; ++hop) make_ready(first_[name.index] + hop, result.checksum);
      return finished;
  }
  LOCKSTEP_UNREACHABLE();
}

// ---- checks (rule 35) ----

void DirectOperation::check_exchange(std::size_t at, std::vector<KernelJob>& jobs) {
  ++exchanges_[at].checks;
  check({at, phase_to(!is_mine(piece_of_[at])), Purpose::kCheck}, payload(at), exchanges_[at].checksum, jobs);
}

void DirectOperation::check_known(std::vector<KernelJob>& jobs) {
  std::size_t checked = 0;
  for (std::size_t at = exchanges_.size(); at-- > 0 && checked < kMostChecked;) {
    const Exchange& exchange = exchanges_[at];
    const bool departs = exchange.departure == Departure::kReady || exchange.departure == Departure::kSent;
    if (!departs || exchange.final_began || exchange.checks > 0) continue;
    check_exchange(at, jobs);
    ++checked;
  }
}

Operation::Finished DirectOperation::check_done(std::size_t at, const JobResult& result) {
  Exchange& exchange = exchanges_[at];
  const std::size_t index = piece_of_[at];
  Finished finished;
  const bool intact = checked(finished, pieces_[index], result);
  LOCKSTEP_ASSERT(exchange.checks > 0);
  --exchange.checks;
  if (exchange.arrival == Arrival::kBackingUp && exchange.checks == 0) {
    const bool lands = !stopped_ && exchange.from != StreamId{};
    exchange.arrival = lands ? Arrival::kLanding : Arrival::kExpected;
    if (lands) {
      exchange.final_began = true;
      finished.placeable = exchange.from;
      finished.place = landing(index, other_of(at));
    }
  }
  if (!intact || exchange.departure != Departure::kChecking) return finished;
  exchange.departure = Departure::kReady;
  others_[other_of(at).value].ready.push_back(static_cast<std::uint32_t>(at));
  return finished;
}

void DirectOperation::finish_final(std::size_t piece, std::uint64_t checksum) {
  LOCKSTEP_ASSERT(finals_missing_ > 0 && !finals_[piece].here);
  --finals_missing_;
  finals_[piece].here = true;
  finals_[piece].checksum = checksum;
}

void DirectOperation::make_ready(std::size_t at, std::uint64_t checksum) {
  Exchange& exchange = exchanges_[at];
  LOCKSTEP_ASSERT(exchange.departure == Departure::kNotReady);
  exchange.checksum = checksum;
  exchange.departure = Departure::kReady;
  others_[other_of(at).value].ready.push_back(static_cast<std::uint32_t>(at));
}

std::uint64_t DirectOperation::result_hash() const {
  std::vector<std::uint64_t> checksums;
  checksums.reserve(finals_.size());
  for (const Final& final : finals_) checksums.push_back(final.checksum);
  return checksums.empty() ? 0 : XXH3_64bits(checksums.data(), checksums.size() * sizeof(std::uint64_t));
}

}  // namespace lockstep::ring
