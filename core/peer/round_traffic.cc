// What neighbours say and send about rounds, and what goes to them.
#include <utility>

#include "core/base/mutant.h"
#include "core/base/overloaded.h"
#include "core/peer/rounds.h"

namespace lockstep::peer {

// ---- messages ----

bool Rounds::stops_as_mismatch(Round& round, PeerId from, std::string why) {
  if (why.empty()) return false;
  if (round.completed_early) return true;  // it stops already; a refused call has no arguments to compare
  ask_to_stop(round, Status::kMismatch, std::move(why), from);
  return true;
}

void Rounds::exchange_greetings(Round& round) {
  const Attempt& attempt = *round.attempt;
  if (attempt.world() == 1) return;
  greetings_.announce(round);
  take_readies(round);
  for (const PeerId from : announcements_.eager().offering(attempt.key, attempt.generation)) {
    const auto* const early = announcements_.eager().find(from, attempt.key, attempt.generation);
    stops_as_mismatch(round, from, greetings_.compare(round, from, early->what));
  }
}

void Rounds::take_early(Round& round) {
  const Attempt& attempt = *round.attempt;
  for (const PeerId from : announcements_.eager().offering(attempt.key, attempt.generation))
    stops_as_mismatch(round, from, greetings_.take_early(round, from));
}

std::uint32_t Rounds::eager_segments() const {
  std::uint32_t segments = 0;
  for (const auto& [order, round] : rounds_) segments += round.attempt ? round.attempt->eager : 0;
  return segments;
}

// Rule 10.
void Rounds::on_ready(PeerId from, StripeIndex stripe, StreamId stream, wire::Ready ready) {
  const auto reset = [&](const char* why) { (void)context_.mesh.reset(stream, why, context_.now, context_.out()); };
  if (ready.key.group != context_.options.group) return reset("an announcement of another group's round");
  Round* round = find_or_pull(ready.key);
  const bool current = round != nullptr && round->runs(ready.key, ready.attempt);
  if (current) {
    const std::optional<Rank> receiver = round->attempt->receiver(from);
    if (!receiver || stops_as_mismatch(*round, from, greetings_.compare(*round, from, ready.what))) return;
    const bool knew = std::exchange(round->attempt->downstream_ready, true);
    const bool asks = round->attempt->in_grid() ? !ready.landing : !knew;  // one that lands knows all parameters
    if (asks) greetings_.tell_rank_parameters(*round, from);
    if (ready.has_parameter && round->attempt->direct) learn_rank_parameter(*round, from, *receiver, ready.parameter);
    if (!ready.landing) return;
    if (round->operation() != nullptr) {
      if (!greetings_.grant(*round, *receiver, ready, stripe, stream))
        return reset("a Ready that does not fit its round");
      greetings_.tell_launch(*round, *receiver);
      greetings_.tell_launches(*round, from);
      return done_if_complete(*round);  // the root of a broadcast, which waits for all to launch it
    }
  } else if (!views_.is_to_come(ready.key, ready.attempt, round != nullptr)) {
    return;
  }
  if (round == nullptr) refuse_unlaunched(ready.key, ready.attempt);
  if (mutant(Mutant::kEarlyReadyForgotten)) return;
  if (!announcements_.keep(from, {std::move(ready), stripe, stream})) {
    reset("more announcements than rounds can be in flight");
  }
}

// What those have said who take segments from here, before this attempt began.
void Rounds::take_readies(Round& round) {
  const Attempt& attempt = *round.attempt;
  if (!attempt.direct) return take_ready(round, attempt.downstream());
  for (const PeerId peer : *attempt.ring) {
    if (peer != context_.options.id) take_ready(round, peer);
  }
}

void Rounds::take_ready(Round& round, PeerId from) {
  auto early = announcements_.take(from, *round.key, round.generation);
  if (early) on_ready(from, early->stripe, early->stream, std::move(early->ready));
}

void Rounds::on_offer(PeerId from, StreamId stream, const wire::Offer& offer) {
  const auto reset = [&](const char* why) { (void)context_.mesh.reset(stream, why, context_.now, context_.out()); };
  if (offer.key.group != context_.options.group) return reset("an offer of another group's round");
  Round* round = find_or_pull(offer.key);
  if (round != nullptr && round->runs(offer.key, offer.attempt)) {
    if (!round->attempt->other(from)) return;
    if (stops_as_mismatch(*round, from, greetings_.compare(*round, from, offer.what))) return;
    const bool asks = !offer.follows && from == round->attempt->upstream() && round->operation() != nullptr &&
                      round->operation()->is_one_small_segment();
    if (asks && !mutant(Mutant::kOfferUnanswered)) greetings_.announce(*round);
    if (!round->is<stage::ExchangingParameters>()) return;  // there is an operation that has places
  } else if (!views_.is_to_come(offer.key, offer.attempt, round != nullptr) || mutant(Mutant::kEarlyForgotten)) {
    return;
  }
  if (round == nullptr) refuse_unlaunched(offer.key, offer.attempt);
  if (!announcements_.eager().expect(from, offer)) reset("more offers than rounds can be in flight");
}

void Rounds::on_rank_parameter(PeerId from, const wire::RankParameter& parameter) {
  Round* round = rounds_.find(parameter.key);
  if (round == nullptr || !round->runs(parameter.key, parameter.attempt)) return;
  const Attempt& attempt = *round->attempt;
  const std::optional<Rank> sender = attempt.sender(from);
  if (!sender || parameter.rank.value >= attempt.world() || (attempt.direct && !attempt.in_grid())) return;
  if (round->is<stage::ExchangingParameters>()) {
    const bool passes = !attempt.in_grid() || attempt.on_the_way(attempt.rank, parameter.rank) == *sender;
    if (passes) learn_rank_parameter(*round, from, parameter.rank, parameter.value);
    return;
  }
  const bool of_root = attempt.in_grid() && round->request.root == context_.options.id;
  if (!of_root || attempt.on_the_way(parameter.rank, attempt.rank) != *sender || !round->is<stage::Running>()) return;
  attempt.operation->learn_launch(parameter.rank);  // rule 59
  done_if_complete(*round);
}

// `from`: who told it.
void Rounds::learn_rank_parameter(Round& round, PeerId from, Rank rank, std::uint64_t value) {
  if (!round.is<stage::ExchangingParameters>()) return;
  if (const auto flaw = round.validate_rank_parameter(rank, value)) {
    return ask_to_stop(round, Status::kProtocolError, context_.name_of(from) + " states " + *flaw);
  }
  const Attempt& attempt = *round.attempt;
  const bool errs = attempt.by_rate && attempt.rank == Rank{0} && rank == attempt.before();
  if (errs && mutant(Mutant::kOwnsByItsOwnRates)) value /= 4;
  if (greetings_.learn_rank_parameter(round, rank, value)) begin_operation(round);
}

// Rule 14.
void Rounds::on_done(PeerId from, const wire::Done& done) {
  Round* round = rounds_.find(done.key);
  if (round == nullptr || !round->runs(done.key, done.attempt) || !round->commits_among_peers()) return;
  if (stops_as_mismatch(*round, from, greetings_.compare(*round, from, done.what))) return;
  round->attempt->agree(from, done);
  commit_if_agreed(*round);
}

Round* Rounds::syncing(const RoundKey& key, AttemptId attempt) {
  Round* round = rounds_.find(key);
  return round != nullptr && round->sync && round->runs(key, generation_of(attempt)) ? round : nullptr;
}

void Rounds::on_state_message(PeerId from, StreamId stream, const wire::Message& message) {
  const auto name_of = overloaded{[](const wire::AskDigests& in) { return std::pair(in.key, in.attempt); },
                                  [](const wire::PieceDigests& in) { return std::pair(in.key, in.attempt); },
                                  [](const wire::AskPieces& in) { return std::pair(in.key, in.attempt); },
                                  [](const wire::HavePieces& in) { return std::pair(in.key, in.attempt); },
                                  [](const auto&) { return std::pair(RoundKey{}, AttemptId{}); }};
  const auto [key, attempt] = std::visit(name_of, message);
  // A message about another attempt is lost: the neighbour asks again.
  if (Round* round = syncing(key, attempt)) syncs_.on_message(*round, from, stream, message);
}

// ---- segments ----

Round* Rounds::running(const wire::Segment& segment) {
  Round* round = rounds_.find(segment.key);
  if (round == nullptr || round->operation() == nullptr || !round->attempted()) return nullptr;
  const bool of_this = round->attempt->generation == generation_of(segment.attempt) || mutant(Mutant::kOldSegmentTaken);
  return of_this && round->attempt->key == segment.key ? round : nullptr;
}

// Rule 58. The sender knows already what the lines of all ranks carry; what the last of them has told is on its way.
bool Rounds::awaits_parameters(PeerId from, const wire::Segment& segment) {
  const Round* round = rounds_.find(segment.key);
  if (round == nullptr || !round->is<stage::ExchangingParameters>() || !round->attempt->by_rate) return false;
  const Attempt& attempt = *round->attempt;
  return attempt.key == segment.key && attempt.generation == generation_of(segment.attempt) && !attempt.mismatched &&
         attempt.other(from) && segment.phase == wire::Phase::kReduceScatter && !mutant(Mutant::kSinksBeforeTheRates);
}

// Rules 10 and 31.
ring::Operation::Place Rounds::on_segment_began(PeerId from, StreamId stream, const wire::Segment& segment) {
  using Landing = ring::Operation::Landing;
  if (segment.phase == wire::Phase::kState) {
    Round* round = syncing(segment.key, segment.attempt);
    if (round == nullptr) return {Landing::kSink, {}};
    return syncs_.on_piece_began(*round, from, stream, segment);
  }
  if (awaits_parameters(from, segment)) return {Landing::kLater, {}};
  Round* round = running(segment);
  if (round == nullptr) return announcements_.eager().begin(from, stream, segment);
  if (round->attempt->mismatched) return {Landing::kSink, {}};
  const std::optional<Rank> sender = round->attempt->sender(from);
  if (!sender) return {Landing::kNonsense, {}};
  const auto place = round->operation()->begin(*sender, segment, stream, context_.jobs.collected());
  start_jobs(*round);
  return place;
}

void Rounds::on_segment_ended(PeerId from, StreamId stream, const wire::SegmentEnded& segment) {
  if (segment.segment.phase == wire::Phase::kState) {
    Round* round = syncing(segment.segment.key, segment.segment.attempt);
    if (round != nullptr) syncs_.on_piece_ended(*round, from, segment);
    return;
  }
  Round* round = running(segment.segment);
  if (segment.into.id == kEarlyBuffer) {
    const bool kept = announcements_.eager().landed(stream, segment) != nullptr;
    if (kept && round != nullptr) stops_as_mismatch(*round, from, greetings_.take_early(*round, from));
    return;
  }
  const std::optional<Rank> sender = round == nullptr ? std::nullopt : round->attempt->sender(from);
  if (!sender) return;
  round->operation()->landed(*sender, segment.segment, segment.taken_back, segment.checksum, context_.jobs.collected());
  start_jobs(*round);
}

bool Rounds::has_segments_of(const Round& round) const {
  if (!round.attempted()) return false;
  if (round.sync) return round.sync->has_next() && states_.may_send(context_.now);
  return round.operation() != nullptr && round.operation()->has_next();
}

bool Rounds::has_segments() const {
  return std::any_of(rounds_.begin(), rounds_.end(), [&](const auto& entry) { return has_segments_of(entry.second); });
}

bool Rounds::has_segments_for(PeerId to) const {
  return std::any_of(rounds_.begin(), rounds_.end(), [&](const auto& entry) {
    const Round& round = entry.second;
    if (round.sync || round.operation() == nullptr) return has_segments_of(round);
    const std::optional<Rank> receiver = round.attempt->receiver(to);
    return receiver && round.attempted() && round.operation()->has_next(*receiver);
  });
}

bool Rounds::next_segment(PeerId to, StripeIndex stripe, StreamId stream, wire::LinkWriter& writer) {
  const Term term = context_.session.term();
  for (auto& [order, round] : rounds_) {
    if (!round.attempted()) continue;
    if (round.sync) {
      if (states_.send_next(*round.sync, *round.key, attempt_id(round.generation), to, context_.now, term, writer))
        return true;
      continue;
    }
    ring::Operation* const operation = round.operation();
    if (operation == nullptr || !operation->has_next()) continue;
    const std::optional<Rank> receiver = round.attempt->receiver(to);
    if (!receiver) continue;
    const auto next = operation->next(*receiver, stripe, stream);
    if (!next) continue;
    if (next->eager) {
      writer.message(wire::Offer{*round.key, round.generation, round.what, true}, term);
    }
    const auto length = static_cast<std::uint32_t>(next->payload.length);
    writer.segment({*round.key, attempt_id(round.generation), next->phase, next->index, length}, term, next->payload,
                   next->checksum);
    limit_under_way(round);
    operation->prepare(context_.jobs.collected());
    start_jobs(round);
    return true;
  }
  return false;
}

// ---- streams and links ----

// Rule 35.
void Rounds::on_stripe_up(PeerId peer, StripeIndex stripe, StreamId stream) {
  for (auto& [order, round] : rounds_) {
    if (!round.attempted() || round.completed_early) continue;  // a refused call has no arguments to announce
    const Attempt& attempt = *round.attempt;
    if (attempt.world() < 2) continue;
    if (round.sync) round.sync->relinked(peer);
    if (attempt.sender(peer) && !mutant(Mutant::kReadyNotRepeated)) greetings_.announce(round, peer, stream);
    const std::optional<Rank> receiver = attempt.receiver(peer);
    if (!receiver) continue;
    if (attempt.downstream_ready) greetings_.tell_rank_parameters(round, peer);
    greetings_.tell_launches(round, peer);
    if (attempt.operation) greetings_.offer_again(round, *receiver, stripe, stream);
  }
}

void Rounds::on_stream_gone(PeerId peer, StreamId stream) {
  for (auto& [order, round] : rounds_) {
    if (round.operation() != nullptr) round.operation()->stream_closed(stream);
    if (!round.sync) continue;
    round.sync->stream_closed(stream);
    round.sync->link_lost(peer);
  }
  announcements_.eager().stream_closed(stream);
}

// A round of an earlier generation, or cohort, needs the links of its own ring. So does a round that is retained for a
// leaver and that this peer is still to launch.
bool Rounds::needs_link(PeerId to) const {
  if (std::any_of(rounds_.begin(), rounds_.end(), [&](const auto& entry) { return needs_link(entry.second, to); })) {
    return true;
  }
  const PeerId own = context_.options.id;
  return std::ranges::any_of(views_.cohorts(), [&](const auto& entry) {
    const Cohort& cohort = entry.second;
    return std::ranges::any_of(cohort.retained_for_leavers, [&](const auto& retained) {
      return rounds_.find(retained.first) == nullptr &&
             Views::are_neighbours(cohort.generations.at(retained.second), own, to);
    });
  });
}

// A member that has the Done of all ends its round, and lets links go that no other round needs (rule 14). A member
// that is done needs no data, and a neighbour that needs some reports the link by itself. A link across the ring is
// reported by the peer that dials, until it knows that the other peer is done: the other peer may have launched, and
// wait, while the peer that dials has not.
bool Rounds::needs_link(const Round& round, PeerId to) const {
  const PeerId own = context_.options.id;
  const Contact* const contact = views_.find_contact(to);
  const bool dials = contact != nullptr && contact->dials;
  if (round.attempted() && round.attempt->direct && dials && round.attempt->receiver(to)) {
    const bool over = round.is<stage::Done>() && round.commits_among_peers() && round.attempt->agrees(to);
    if (!over) return true;
  }
  if (!round.open() || round.is<stage::Done>()) return false;
  const Cohort* const cohort = views_.cohort_of(*round.key);
  if (cohort == nullptr) return false;
  const bool is_now = cohort->id == context_.view->cohort && round.generation == cohort->current;
  const auto among = cohort->generations.find(round.generation);
  return !is_now && among != cohort->generations.end() && Views::are_neighbours(among->second, own, to);
}

// A leaver is in no current ring, but in the generation of the rounds that were retained for it (rule 22). A member
// that has installed the next view may call before this peer installs it.
void Rounds::on_direct_caller(PeerId from) {
  if (views_.proposal() && Views::has_member(views_.proposal()->view, from)) return go_direct();
  for (const auto& [id, cohort] : views_.cohorts()) {
    for (const auto& [generation, roster] : cohort.generations) {
      if (std::find(roster.ring->begin(), roster.ring->end(), from) != roster.ring->end()) return go_direct();
    }
  }
}

void Rounds::add_links(Views::Links& links) const {
  for (const auto& [order, round] : rounds_) {
    if (!round.open()) continue;
    if (round.sync && round.attempted()) {
      for (const PeerId peer : round.sync->partners()) {
        links.try_emplace(peer, Mesh::Wanted{views_.contact_of(peer), false});
      }
    }
    const Cohort* cohort = views_.cohort_of(*round.key);
    if (cohort == nullptr) continue;
    const auto among = cohort->generations.find(round.generation);
    if (among != cohort->generations.end()) views_.add_ring(among->second, direct_, false, links);
  }
}

}  // namespace lockstep::peer
