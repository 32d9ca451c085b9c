#include "core/peer/round_traffic.h"

#include <algorithm>
#include <utility>

#include "core/base/mutant.h"
#include "core/base/overloaded.h"

namespace lockstep::peer {

// Rule 10.
void RoundTraffic::on_ready(PeerId from, StripeIndex stripe, StreamId stream, wire::Ready ready) {
  if (ready.key.group != context_.options.group) {
    (void)context_.mesh.reset(stream, "an announcement of another group's round", context_.now, context_.out());
    return;
  }
  Round* round = launches_.find_or_pull(ready.key);
  if (round != nullptr && round->runs(ready.key, ready.attempt)) {
    return operations_.on_ready(*round, from, {std::move(ready), stripe, stream});
  }
  if (!views_.is_to_come(ready.key, ready.attempt, round != nullptr)) return;
  if (round == nullptr) admissions_.refuse_unlaunched(ready.key, ready.attempt);
  operations_.keep(from, {std::move(ready), stripe, stream});
}

void RoundTraffic::on_offer(PeerId from, StreamId stream, const wire::Offer& offer) {
  const auto reset = [&](const char* why) { (void)context_.mesh.reset(stream, why, context_.now, context_.out()); };
  if (offer.key.group != context_.options.group) return reset("an offer of another group's round");
  Round* round = launches_.find_or_pull(offer.key);
  if (round != nullptr && round->runs(offer.key, offer.attempt)) {
    if (!round->attempt->other(from)) return;
    if (stops_.stops_as_mismatch(*round, from, greetings_.compare(*round, from, offer.what))) return;
    const bool asks = !offer.follows && from == round->attempt->upstream() && round->operation() != nullptr &&
                      round->operation()->is_one_small_segment();
    if (asks && !mutant(Mutant::kOfferUnanswered)) greetings_.announce(*round);
    if (!round->is<stage::ExchangingParameters>()) return;  // there is an operation that has places
  } else if (!views_.is_to_come(offer.key, offer.attempt, round != nullptr) || mutant(Mutant::kEarlyForgotten)) {
    return;
  }
  if (round == nullptr) admissions_.refuse_unlaunched(offer.key, offer.attempt);
  if (!announcements_.eager().expect(from, offer)) reset("more offers than rounds can be in flight");
}

void RoundTraffic::on_rank_parameter(PeerId from, const wire::RankParameter& parameter) {
  Round* round = rounds_.find(parameter.key);
  if (round == nullptr || !round->runs(parameter.key, parameter.attempt)) return;
  const Attempt& attempt = *round->attempt;
  const std::optional<Rank> sender = attempt.sender(from);
  if (!sender || parameter.rank.value >= attempt.world() || (attempt.direct && !attempt.in_grid())) return;
  if (round->is<stage::ExchangingParameters>()) {
    const bool passes = !attempt.in_grid() || attempt.on_the_way(attempt.rank, parameter.rank) == *sender;
    if (passes) operations_.learn_rank_parameter(*round, from, parameter.rank, parameter.value);
    return;
  }
  const bool of_root = attempt.in_grid() && round->request.root == context_.options.id;
  if (!of_root || attempt.on_the_way(parameter.rank, attempt.rank) != *sender || !round->is<stage::Running>()) return;
  attempt.operation->learn_launch(parameter.rank);  // rule 59
  commits_.done_if_complete(*round);
}

// Rule 14.
void RoundTraffic::on_done(PeerId from, const wire::Done& done) {
  Round* round = rounds_.find(done.key);
  if (round == nullptr || !round->runs(done.key, done.attempt) || !round->commits_among_peers()) return;
  if (stops_.stops_as_mismatch(*round, from, greetings_.compare(*round, from, done.what))) return;
  round->attempt->agree(from, done);
  commits_.commit_if_agreed(*round);
}

Round* RoundTraffic::syncing(const RoundKey& key, AttemptId attempt) {
  Round* round = rounds_.find(key);
  return round != nullptr && round->sync && round->runs(key, generation_of(attempt)) ? round : nullptr;
}

void RoundTraffic::on_state_message(PeerId from, StreamId stream, const wire::Message& message) {
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

Round* RoundTraffic::running(const wire::Segment& segment) {
  Round* round = rounds_.find(segment.key);
  if (round == nullptr || round->operation() == nullptr || !round->attempted()) return nullptr;
  const bool of_this = round->attempt->generation == generation_of(segment.attempt) || mutant(Mutant::kOldSegmentTaken);
  return of_this && round->attempt->key == segment.key ? round : nullptr;
}

// Rule 58. The sender knows already what the lines of all ranks carry; what the last of them has told is on its way.
bool RoundTraffic::awaits_parameters(PeerId from, const wire::Segment& segment) {
  const Round* round = rounds_.find(segment.key);
  if (round == nullptr || !round->is<stage::ExchangingParameters>() || !round->attempt->by_rate) return false;
  const Attempt& attempt = *round->attempt;
  return attempt.key == segment.key && attempt.generation == generation_of(segment.attempt) && !attempt.mismatched &&
         attempt.other(from) && segment.phase == wire::Phase::kReduceScatter && !mutant(Mutant::kSinksBeforeTheRates);
}

// Rules 10 and 31.
ring::Operation::SegmentPlace RoundTraffic::on_segment_began(PeerId from, StreamId stream,
                                                             const wire::Segment& segment) {
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

void RoundTraffic::on_segment_ended(PeerId from, StreamId stream, const wire::SegmentEnded& segment) {
  if (segment.segment.phase == wire::Phase::kState) {
    Round* round = syncing(segment.segment.key, segment.segment.attempt);
    if (round != nullptr) syncs_.on_piece_ended(*round, from, segment);
    return;
  }
  Round* round = running(segment.segment);
  if (segment.into.id == kEarlyBuffer) {
    const bool kept = announcements_.eager().landed(stream, segment) != nullptr;
    if (kept && round != nullptr) operations_.take_early(*round, from);
    return;
  }
  const std::optional<Rank> sender = round == nullptr ? std::nullopt : round->attempt->sender(from);
  if (!sender) return;
  round->operation()->landed(*sender, segment.segment, segment.taken_back, segment.checksum, context_.jobs.collected());
  start_jobs(*round);
}

bool RoundTraffic::has_segments_of(const Round& round) const {
  if (!round.attempted()) return false;
  if (round.sync) return round.sync->has_next() && states_.may_send(context_.now);
  return round.operation() != nullptr && round.operation()->has_next();
}

bool RoundTraffic::has_segments() const {
  return std::any_of(rounds_.begin(), rounds_.end(), [&](const auto& entry) { return has_segments_of(entry.second); });
}

bool RoundTraffic::has_segments_for(PeerId to) const {
  return std::any_of(rounds_.begin(), rounds_.end(), [&](const auto& entry) {
    const Round& round = entry.second;
    if (round.sync || round.operation() == nullptr) return has_segments_of(round);
    const std::optional<Rank> receiver = round.attempt->receiver(to);
    return receiver && round.attempted() && round.operation()->has_next(*receiver);
  });
}

bool RoundTraffic::next_segment(PeerId to, StripeIndex stripe, StreamId stream, wire::LinkWriter& writer) {
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
    operations_.limit_under_way(round);
    operation->prepare(context_.jobs.collected());
    start_jobs(round);
    return true;
  }
  return false;
}

// ---- streams ----

// Rule 35.
void RoundTraffic::on_stripe_up(PeerId peer, StripeIndex stripe, StreamId stream) {
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

void RoundTraffic::on_stream_gone(PeerId peer, StreamId stream) {
  for (auto& [order, round] : rounds_) {
    if (round.operation() != nullptr) round.operation()->stream_closed(stream);
    if (!round.sync) continue;
    round.sync->stream_closed(stream);
    round.sync->link_lost(peer);
  }
  announcements_.eager().stream_closed(stream);
}

}  // namespace lockstep::peer
