#include "core/ring/direct_operation.h"

#include <xxhash.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/buffers/buffer_ref.h"
#include "core/wire/limits.h"

namespace lockstep::ring {

using wire::Collective;
using wire::Phase;

DirectOperation::DirectOperation(const Request& request, Rank rank, std::uint32_t world, std::uint32_t root,
                                 std::vector<std::uint64_t> rank_parameters, Segmenting segmenting)
    : Operation(request, rank, world, root, std::move(rank_parameters), segmenting),
      grid_(grid_of(segmenting.algorithm, world)),
      owned_(world),
      lanes_(grid_.length_of(grid_.row_of(rank.value))),
      root_(root),
      segments_in_one_(lossy_segments_in_one(segmenting)),
      finals_(pieces_.size()),
      others_(world) {
  LOCKSTEP_ASSERT(world > 1);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const auto piece = static_cast<std::uint32_t>(i);
    owned_[pieces_[i].owner].push_back(piece);
    std::vector<std::uint32_t>& lane = lanes_[lane_of(i)];
    ordinals_.push_back(static_cast<std::uint32_t>(lane.size()));
    lane.push_back(piece);
    first_.push_back(static_cast<std::uint32_t>(piece_of_.size()));
    piece_of_.insert(piece_of_.end(), children(i) + (is_mine(i) ? 0 : 1), piece);
  }
  exchanges_.resize(piece_of_.size());
  for (std::size_t at = 0; at < exchanges_.size(); ++at) {
    const std::size_t piece = piece_of_[at];
    const bool up = is_with_parent(at);
    const std::uint32_t below = up ? rank.value : other_of(at).value;
    if (!(up ? gets_final(below, piece) : contributes(below, piece))) exchanges_[at].arrival = Arrival::kNotOurs;
    if (!(up ? contributes(below, piece) : gets_final(below, piece))) exchanges_[at].departure = Departure::kNotOurs;
    if (!up && exchanges_[at].arrival == Arrival::kExpected) ++finals_[piece].missing;
  }
  finals_missing_ = 0;
  for (std::size_t i = 0; i < pieces_.size(); ++i) finals_missing_ += keeps_final(i) ? 1 : 0;
  if (waits_for_launches()) finals_missing_ += world - 1;
  if (reduces(request.collective)) lay_out_rooms(segmenting);
}

void DirectOperation::lay_out_rooms(const Segmenting& segmenting) {
  const auto room_for = [&](const Piece& piece) {
    return std::uint64_t{piece.form(Phase::kReduceScatter).bytes} * grid_.most_children();
  };
  if (!is(Collective::kAllReduce)) {
    std::uint64_t begin = 0;
    for (const std::uint32_t piece : lanes_[grid_.column_of(rank_.value)]) {
      rooms_.push_back(begin);
      begin += room_of(piece).length + (result_has_place(piece) ? 0 : pieces_[piece].length);
    }
    LOCKSTEP_ASSERT(begin <= request_.scratch.length);
    return;
  }
  std::uint64_t largest = 0;  // of a piece
  std::uint64_t fullest = 0;  // of all pieces of a lane
  for (const auto& lane : lanes_) {
    std::uint64_t bytes = 0;
    for (const std::uint32_t piece : lane) {
      bytes += room_for(pieces_[piece]);
      largest = std::max(largest, room_for(pieces_[piece]));
    }
    fullest = std::max(fullest, bytes);
  }
  if (largest == 0) return;
  const bool all_fit = segmenting.turns == 0 && fullest <= segmenting.room;  // equal on all ranks
  if (!all_fit) turns_ = segmenting.room / largest;
  if (segmenting.turns != 0) turns_ = std::min<std::uint64_t>(turns_, segmenting.turns);
  LOCKSTEP_ASSERT(all_fit || turns_ > 0);  // Operation::validate() has checked
  const std::vector<std::uint32_t>& lane = lanes_[grid_.column_of(rank_.value)];
  std::uint64_t begin = scratch_offsets_.back();
  for (std::size_t ordinal = 0; ordinal < lane.size(); ++ordinal) {
    rooms_.push_back(all_fit ? begin : scratch_offsets_.back() + ordinal % turns_ * largest);
    begin += room_for(pieces_[lane[ordinal]]);
  }
}

bool DirectOperation::contributes(std::uint32_t rank, std::size_t piece) const {
  if (rank == pieces_[piece].owner) return false;
  return reduces(request_.collective) || (is(Collective::kBroadcast) && (rank == root_ || is_before_root(rank, piece)));
}

bool DirectOperation::gets_final(std::uint32_t rank, std::size_t piece) const {
  if (rank == pieces_[piece].owner || is(Collective::kReduceScatter)) return false;
  if (is(Collective::kReduce)) return rank == root_ || is_before_root(rank, piece);
  return !is(Collective::kBroadcast) || (rank != root_ && !is_before_root(rank, piece));
}

bool DirectOperation::keeps_final(std::size_t piece) const {
  if (is(Collective::kReduceScatter)) return is_mine(piece);
  return !is(Collective::kReduce) || rank_.value == root_;
}

bool DirectOperation::result_has_place(std::size_t piece) const {
  return !results_differ(request_.collective) || keeps_final(piece);
}

std::size_t DirectOperation::exchange_with_child(std::size_t piece, Rank child) const {
  const auto index = grid_.index_of_child(rank_.value, pieces_[piece].owner, child.value);
  LOCKSTEP_ASSERT(index.has_value());
  return first_[piece] + *index;
}

Rank DirectOperation::other_of(std::size_t exchange) const {
  if (is_with_parent(exchange)) return parent(piece_of_[exchange]);
  const std::size_t piece = piece_of_[exchange];
  const auto index = static_cast<std::uint32_t>(exchange - first_[piece]);
  return Rank{grid_.child(rank_.value, pieces_[piece].owner, index)};
}

std::span<const std::uint32_t> DirectOperation::pieces_between(std::uint32_t parent, std::uint32_t child) const {
  if (parent == child) return {};
  if (grid_.row_of(parent) == grid_.row_of(child)) return lanes_[grid_.column_of(parent)];
  if (!grid_.collects(child, parent)) return {};
  return owned_[parent];
}

// Returns the piece whose contributions lay in the same room before; nullopt if no contributions did.
std::optional<std::size_t> DirectOperation::before_in_room(std::size_t piece) const {
  const std::uint32_t ordinal = ordinals_[piece];
  if (turns_ == 0 || ordinal < turns_ || mutant(Mutant::kOutOfTurn)) return std::nullopt;
  return lanes_[lane_of(piece)][ordinal - turns_];
}

// The final proves that all have folded what lay there. A parent itself may not have the final yet.
bool DirectOperation::in_turn(std::size_t piece) const {
  const auto before = before_in_room(piece);
  return !before || finals_[*before].here;
}

bool DirectOperation::has_room_for(std::size_t piece) const {
  const auto before = before_in_room(piece);
  return !before || finals_[*before].folded;
}

// The order of the ring, whoever owns the piece.
std::uint32_t DirectOperation::place_in_fold(std::uint32_t rank, std::size_t piece) const {
  const std::uint32_t last = mutant(Mutant::kFoldsFromTheOwner) ? pieces_[piece].owner : pieces_[piece].last;
  return (rank + world_ - last - 1) % world_;
}

BufferRef DirectOperation::room_of(std::size_t piece) const {
  const std::uint64_t bytes = std::uint64_t{pieces_[piece].form(Phase::kReduceScatter).bytes} * children(piece);
  return request_.scratch.slice(rooms_[ordinals_[piece]], bytes);
}

BufferRef DirectOperation::final_of(std::size_t piece) const {
  if (!reduces(request_.collective) || is(Collective::kAllReduce)) return departure(pieces_[piece], Phase::kAllGather);
  if (result_has_place(piece)) return result(pieces_[piece]);
  const BufferRef room = room_of(piece);
  return {room.id, room.offset + room.length, pieces_[piece].length};
}

BufferRef DirectOperation::landing(std::size_t piece, Rank from) const {
  if (is_parent(from, piece) || !reduces(request_.collective)) return final_of(piece);
  const std::uint32_t bytes = pieces_[piece].form(Phase::kReduceScatter).bytes;
  if (!is_direct()) {
    const std::size_t index = exchange_with_child(piece, from) - first_[piece];
    return room_of(piece).slice(std::uint64_t{bytes} * index, bytes);
  }
  const std::uint32_t place = place_in_fold(from.value, piece);
  const std::uint32_t before = place > before_own(piece) ? place - 1 : place;
  return room_of(piece).slice(std::uint64_t{bytes} * before, bytes);
}

// A contribution shows that its sender has launched the round: it has memory for all segments that we send.
void DirectOperation::launched(Rank by, std::vector<KernelJob>& jobs) {
  if (others_[by.value].granted) return;
  note_launch(others_[by.value]);
  prepare_for(by.value, jobs);
}

void DirectOperation::note_launch(Other& other) {
  const bool news = !std::exchange(other.granted, true);
  if (news && waits_for_launches()) --finals_missing_;
}

Operation::SegmentPlace DirectOperation::begin(Rank from, const wire::Segment& wanted, StreamId stream,
                                               std::vector<KernelJob>& jobs) {
  const std::size_t index = wanted.index.value;
  if (index >= pieces_.size() || wanted.length != pieces_[index].form(wanted.phase).bytes) {
    return {Landing::kNonsense, {}};
  }
  const bool contribution = wanted.phase == Phase::kReduceScatter;
  if (contribution ? !is_child(from, index) || !contributes(from.value, index)
                   : !is_parent(from, index) || !gets_final(rank_.value, index)) {
    return {Landing::kNonsense, {}};
  }
  if (contribution) launched(from, jobs);
  if (stopped_) return {Landing::kSink, {}};
  const std::size_t at = exchange_with(index, from);
  Exchange& exchange = exchanges_[at];
  if (contribution) {
    if (!has_room_for(index)) return {Landing::kNonsense, {}};
  } else if (contributes(rank_.value, index)) {
    take_back_repeated(at);
    if (exchange.departure != Departure::kSent) return {Landing::kNonsense, {}};  // a final without our contribution
  }
  const bool waits = exchange.arrival == Arrival::kBackingUp && exchange.from == StreamId{};
  if (exchange.arrival != Arrival::kExpected && !waits) return {Landing::kSink, {}};
  exchange.from = stream;
  if (!contribution && exchange.checks > 0) {
    exchange.arrival = Arrival::kBackingUp;  // see check_done()
    return {Landing::kLater, {}};
  }
  exchange.arrival = Arrival::kLanding;
  exchange.final_began = !contribution;
  return {Landing::kPlace, landing(index, from)};
}

void DirectOperation::landed(Rank from, const wire::Segment& arrived, bool taken_back, std::uint64_t checksum,
                             std::vector<KernelJob>& jobs) {
  const std::size_t index = arrived.index.value;
  const std::size_t at = exchange_with(index, from);
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
  if (index >= pieces_.size() || arrived.phase != Phase::kReduceScatter || !is_child(from, index)) return false;
  if (!contributes(from.value, index) || !has_room_for(index)) return false;
  if (arrived.length != pieces_[index].form(arrived.phase).bytes) return false;
  launched(from, jobs);
  const std::size_t at = exchange_with_child(index, from);
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
  for_each_between(from, [&](std::size_t piece, bool with_parent) {
    const Arrival arrival = exchanges_[exchange_with(piece, from)].arrival;
    if (arrival == Arrival::kWorking || arrival == Arrival::kHere) add_to(have, phase_to(!with_parent), piece);
  });
  return have;
}

bool DirectOperation::grant(Rank by, std::span<const std::uint64_t> have, StripeIndex stripe, StreamId stream) {
  if (!can_be_have(have)) return false;
  note_launch(others_[by.value]);
  if (stopped_) return true;
  for_each_between(by, [&](std::size_t piece, bool with_parent) {
    const std::size_t at = exchange_with(piece, by);
    Exchange& exchange = exchanges_[at];
    const bool arrived = has(have, phase_to(with_parent), piece);
    if (arrived) exchange.eager = false;
    if (exchange.departure != Departure::kSent || exchange.stripe != stripe || exchange.on == stream) return;
    if (!arrived && !mutant(Mutant::kResendsNothing)) send_again(at);
  });
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
  for_each_between(to, [&](std::size_t piece, bool with_parent) {
    if (!with_parent) return;
    const std::size_t at = exchange_with_parent(piece);
    const Exchange& exchange = exchanges_[at];
    if (exchange.departure != Departure::kSent || !exchange.eager) return;
    if (exchange.stripe != stripe || exchange.on == stream) return;
    send_again(at);
  });
}

std::uint32_t DirectOperation::eager_segments() const {
  if (!reduces(request_.collective)) return 0;
  std::size_t most = 0;
  for (std::uint32_t to = 0; to < world_; ++to) {
    most = std::max(most, pieces_between(to, rank_.value).size());
  }
  const bool fits = std::ranges::all_of(
      pieces_, [](const Piece& piece) { return piece.form(Phase::kReduceScatter).bytes <= kEarlySlotBytes; });
  return fits && (turns_ == 0 || most <= turns_) ? static_cast<std::uint32_t>(most) : 0;
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

// An encoded contribution lies at the end of the room, where partial sums arrive, apart from its final. A relay folds
// what it has collected where the final will be.
BufferRef DirectOperation::payload(std::size_t exchange) const {
  const Piece& piece = pieces_[piece_of_[exchange]];
  if (collects(piece_of_[exchange])) return final_of(piece_of_[exchange]);
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
  const bool contribution = is_with_parent(at);
  if (contribution && !exchange.again && contributes_own(index)) --other.ahead;
  const bool first = !contribution && is_mine(index) && !std::exchange(finals_[index].departed, true);
  if (first && !has_contributions()) --ahead_;
  exchange.eager = contribution && !other.granted;
  const Phase phase = phase_to(contribution);
  bytes_sent_ += piece.form(phase).bytes;
  return Outgoing{phase, SegmentIndex{static_cast<std::uint32_t>(index)}, payload(at), exchange.checksum,
                  exchange.eager};
}

// Every rank begins with the next rank of the ring, so that ranks do not all send to the same rank first.
void DirectOperation::prepare(std::vector<KernelJob>& jobs) {
  for (; !stopped_ && !unchecked_.empty(); unchecked_.pop_front()) check_exchange(unchecked_.front(), jobs);
  for (std::uint32_t step = 1; step < world_; ++step) prepare_for((rank_.value + step) % world_, jobs);
  prepare_finals(jobs);
}

// Of our pieces that nobody contributes to: the blocks of an all-gather, and what the root of a broadcast owns.
void DirectOperation::prepare_finals(std::vector<KernelJob>& jobs) {
  if (stopped_ || has_contributions() || std::ranges::none_of(others_, &Other::granted)) return;
  const std::vector<std::uint32_t>& mine = owned_[rank_.value];
  for (; prepared_ < mine.size() && ahead_ < kPreparedAhead; ++prepared_) {
    const std::size_t index = mine[prepared_];
    ++ahead_;
    const BufferRef into = final_of(index);
    const BufferRef from = input(pieces_[index]);
    const bool copies = from != into;
    const JobName name{index, Phase::kAllGather, copies ? Purpose::kOwnCopy : Purpose::kOwn};
    start(jobs, name, copies ? JobWork{CopyJob{.into = into, .from = from}} : JobWork{HashJob{into}});
  }
}

void DirectOperation::limit(const UnderWay& most) {
  if (!is(Collective::kAllReduce) || !is_direct() || most == under_way_) return;
  const bool grows_on = most.is_guess && under_way_.is_guess;  // only the number of stripes is another
  under_way_ = most;
  std::vector<std::uint64_t> bytes(world_);  // of the contributions to each owner
  for (const Piece& piece : pieces_) bytes[piece.owner] += piece.form(Phase::kReduceScatter).bytes;
  bytes[rank_.value] = 0;
  const std::uint64_t all = std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
  for (std::uint32_t to = 0; to < world_; ++to) {
    // In KiB, so that no product overflows.
    const std::uint64_t pieces = owned_[to].size();
    const std::uint64_t part = most.bytes >= all ? pieces : pieces * (most.bytes / 1024) / (all / 1024 + 1);
    const std::size_t grown = grows_on ? others_[to].window : 0;
    others_[to].window = std::max<std::size_t>({1, std::size_t{most.segments} * segments_in_one_, part, grown});
  }
}

bool DirectOperation::may_prepare(const Other& other, std::size_t piece) const {
  if (other.ahead >= kPreparedAhead || !in_turn(piece)) return false;
  return other.window == 0 || other.prepared < other.finals + other.window;
}

void DirectOperation::prepare_for(std::uint32_t to, std::vector<KernelJob>& jobs) {
  Other& other = others_[to];
  if (stopped_ || !(other.granted || eager_)) return;
  const std::span<const std::uint32_t> pieces = pieces_between(to, rank_.value);
  if (pieces.empty() || !contributes_own(pieces.front())) return;  // what this rank has collected: see folded()
  while (other.prepared < pieces.size() && may_prepare(other, pieces[other.prepared])) {
    const std::size_t index = pieces[other.prepared++];
    ++other.ahead;
    const Piece& piece = pieces_[index];
    const JobName name{exchange_with_parent(index), Phase::kReduceScatter, Purpose::kOwn};
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
                 FoldAllJob{.into = final_of(index),
                            .from = room_of(index),
                            .own = input(piece),
                            .before = before_own(index),
                            .type = request_.type,
                            .op = request_.op,
                            .divisor = request_.op == ReduceOp::kAvg && is_mine(index) ? world_ : 0});
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

// Of a contribution that came early, or of our block of an all-gather.
void DirectOperation::copied(const JobName& name, Finished& finished, std::vector<KernelJob>& jobs) {
  if (name.phase == Phase::kAllGather) {
    if (!stopped_) start(jobs, {name.index, name.phase, Purpose::kOwn}, HashJob{final_of(name.index)});
    return;
  }
  Exchange& exchange = exchanges_[name.index];
  const std::size_t index = piece_of_[name.index];
  const Rank from = other_of(name.index);
  finished.used_early = {from, SegmentIndex{static_cast<std::uint32_t>(index)}};
  bytes_received_ += pieces_[index].form(name.phase).bytes;
  if (stopped_) {
    exchange.arrival = Arrival::kExpected;
    return;
  }
  start(jobs, {name.index, name.phase, Purpose::kArrived},
        verification(index, name.phase, landing(index, from), exchange.stated));
}

void DirectOperation::arrived(const JobName& name, const JobResult& result, Finished& finished,
                              std::vector<KernelJob>& jobs) {
  Exchange& exchange = exchanges_[name.index];
  const std::size_t index = piece_of_[name.index];
  const Rank from = other_of(name.index);
  if (!result.intact) {
    exchange.arrival = Arrival::kExpected;
    finished.stream = exchange.from;
    return take_corrupt(finished, exchange.corrupt, pieces_[index], name.phase, from, jobs);
  }
  exchange.arrival = Arrival::kHere;
  if (result.malformed) {
    finished.fault = Error{Status::kProtocolError, "rank " + std::to_string(from.value) +
                                                       " sent bytes that are not a valid encoding in " +
                                                       std::string(name_of(pieces_[index].form(name.phase).format))};
    return;
  }
  if (name.phase == Phase::kAllGather) {
    complete_final(index, result.checksum);
    Other& other = others_[from.value];
    if (!mutant(Mutant::kFinalsNotCounted)) ++other.finals;
    if (under_way_.is_guess) ++other.window;
    return prepare_for(from.value, jobs);  // there is room for its next piece
  }
  if (--finals_[index].missing > 0 || stopped_) return;
  if (reduces(request_.collective)) return gather(index, jobs);
  complete_final(index, result.checksum);
  if (!is_mine(index)) make_ready(exchange_with_parent(index), result.checksum);
}

Operation::Finished DirectOperation::job_done(JobToken token, const JobResult& result, std::vector<KernelJob>& jobs) {
  LOCKSTEP_ASSERT(running_ > 0);
  --running_;
  const JobName name = JobName::of(token);
  Finished finished;
  switch (name.purpose) {
    case Purpose::kBackUp:
    case Purpose::kRestore: LOCKSTEP_UNREACHABLE();
    case Purpose::kOwnCopy: copied(name, finished, jobs); return finished;
    case Purpose::kUpdateResidual:
      if (stopped_) decode(name.index, jobs);
      return finished;
    case Purpose::kDecode: decoded(name.index, result); return finished;
    case Purpose::kCheck: return check_done(name.index, result);
    case Purpose::kOwn:
      if (name.phase == Phase::kAllGather) {
        complete_final(name.index, result.checksum);
        return finished;
      }
      if (result.not_finite && !mutant(Mutant::kOddElementsGo)) {
        finished.fault = not_finite(pieces_[piece_of_[name.index]], *result.not_finite, false);
        return finished;
      }
      make_ready(name.index, result.checksum);
      if (is(Collective::kBroadcast)) complete_final(piece_of_[name.index], result.checksum);
      if (mutant(Mutant::kLeavesAtOnce)) update_residual(piece_of_[name.index], jobs);
      return finished;
    case Purpose::kArrived: arrived(name, result, finished, jobs); return finished;
    case Purpose::kGather:
      if (result.malformed) {
        finished.fault = changed(pieces_[name.index], "a contribution");
        return finished;
      }
      if (result.not_finite) {
        finished.fault = not_finite(pieces_[name.index], *result.not_finite, true);
        return finished;
      }
      folded(name.index, result.checksum);
      return finished;
  }
  LOCKSTEP_UNREACHABLE();
}

// ---- checks (rule 35) ----

void DirectOperation::check_exchange(std::size_t at, std::vector<KernelJob>& jobs) {
  ++exchanges_[at].checks;
  check({at, phase_to(is_with_parent(at)), Purpose::kCheck}, payload(at), exchanges_[at].checksum, jobs);
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

// All contributions of our children, with our own: the final of a piece of ours, or what we contribute for all of them.
void DirectOperation::folded(std::size_t index, std::uint64_t checksum) {
  finals_[index].folded = true;
  if (is_mine(index)) return complete_final(index, checksum);
  if (!stopped_) make_ready(exchange_with_parent(index), checksum);
}

// It goes to all children that get it.
void DirectOperation::complete_final(std::size_t index, std::uint64_t checksum) {
  finish_final(index, checksum);
  if (!is_mine(index) && mutant(Mutant::kFinalStaysAtTheRelay)) return;
  const std::size_t end = first_[index] + children(index);
  for (std::size_t at = first_[index]; at < end; ++at) {
    if (exchanges_[at].departure != Departure::kNotOurs) make_ready(at, checksum);
  }
}

void DirectOperation::finish_final(std::size_t piece, std::uint64_t checksum) {
  LOCKSTEP_ASSERT(!finals_[piece].here);
  if (keeps_final(piece)) {
    LOCKSTEP_ASSERT(finals_missing_ > 0);
    --finals_missing_;
  }
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
  if (results_differ(request_.collective)) return 0;
  std::vector<std::uint64_t> checksums;
  checksums.reserve(finals_.size());
  for (const Final& final : finals_) checksums.push_back(final.checksum);
  return checksums.empty() ? 0 : XXH3_64bits(checksums.data(), checksums.size() * sizeof(std::uint64_t));
}

}  // namespace lockstep::ring
