#include "core/peer/round_syncs.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "core/base/overloaded.h"

namespace lockstep::peer {

// ---- the course of a sync ----

void RoundSyncs::begin(Round& round) {
  LOCKSTEP_ASSERT(round.attempt && !round.attempt->jobs);
  if (!round.sync) {
    round.sync = states_.new_sync(round.request);
    states_.recall(round.key->tag, round.what.layout, *round.sync);
  }
  round.attempt->jobs = context_.jobs.open(Jobs::Use::kRound, round.order);
  round.stage = stage::Digesting{};
  round.sync->digest_some(context_.jobs.collected());
  start_jobs(round);
  claim_if_digested(round);
}

void RoundSyncs::claim_if_digested(Round& round) {
  if (!round.is<stage::Digesting>() || !round.sync->digested() || is_frozen(round)) return;
  round.stage = stage::Claimed{};
  const state::Claim claim = round.sync->claim();
  context_.session.say(wire::Claim{*round.key, round.generation, round.what, claim.strategy, claim.defined,
                                   claim.revision, claim.root, claim.lineage});
}

// Rule 25.
std::string RoundSyncs::elect(Round& round, const wire::Elected& in) {
  LOCKSTEP_ASSERT(round.is<stage::Claimed>());
  const state::Elected elected{in.revision, in.root, in.lineage, in.sources, in.receivers};
  const std::vector<PeerId>& ring = *round.attempt->ring;
  for (const auto* list : {&elected.sources, &elected.receivers}) {
    for (const PeerId peer : *list) {
      if (std::find(ring.begin(), ring.end(), peer) == ring.end()) return "elected a state of no member";
    }
  }
  if (!round.sync->fits(elected)) return "elected a state that this peer neither has nor may take over";
  round.sync->elected({in.key, attempt_id(in.attempt)}, elected);
  round.hash = elected.root.low;
  round.stage = round.sync->receives() ? Round::Stage{stage::Running{}} : Round::Stage{stage::Done{}};
  return {};
}

// Rule 38.
void RoundSyncs::ask(Round& round, const std::set<PeerId>& linked) {
  state::Sync::Messages messages;
  round.sync->ask(linked, context_.now, messages);
  say_all(messages);
}

std::optional<std::string> RoundSyncs::stranded(const Round& round) const {
  const bool stranded = round.sync->is_stranded();
  if (!stranded && !round.sync->is_cut_off()) return std::nullopt;
  std::string sources;
  for (const PeerId source : round.sync->sources()) sources += (sources.empty() ? "" : ", ") + context_.name_of(source);
  return context_.name_of(context_.options.id) + " has nobody left to take the state over from: " +
         (stranded ? "what it got is not the state that was claimed by " : "it cannot reach ") + sources +
         (stranded
              ? ": the program of one of these peers wrote to the state before the call had ended, or the memory or "
                "the CPU of a host is faulty"
              : "");
}

void RoundSyncs::done_if_complete(Round& round) {
  if (!round.is<stage::Running>() || !round.sync->complete() || is_frozen(round)) return;
  round.stage = stage::Done{};
  context_.session.say(wire::Done{*round.key, round.generation, round.what, round.hash, 0, round.sync->fetched()});
}

void RoundSyncs::on_job_done(Round& round, const JobDone& in) {
  const auto liar = LocalStates::job_done(*round.sync, round.call, in, context_.out());
  if (liar) note_lie(*liar, "a piece of the state whose digest is wrong");
  if (!round.is<stage::Digesting>()) return;
  round.sync->digest_some(context_.jobs.collected());
  start_jobs(round);
  claim_if_digested(round);
}

void RoundSyncs::end(Round& round, bool is_member) {
  context_.jobs.close(round.attempt->jobs);
  state::Sync& sync = *round.sync;
  LOCKSTEP_ASSERT(round.is<stage::Ending>());
  if (!round.has_outcome()) return sync.begin_again();
  Outcome& outcome = *round.ending()->outcome;
  states_.remember(round.key->tag, round.what.layout, sync, outcome.status == Status::kOk);
  states_.note_torn(round.request.tag, sync);
  LocalStates::describe(sync, is_member, outcome);
  if (outcome.status == Status::kOk) {
    outcome.lineage = state::lineage_of(outcome.lineage, outcome.root);
    note_replaced(round, outcome);
  }
  round.totals.sent = sync.bytes_sent();
  round.totals.received = sync.bytes_received();
}

// The caller chose it (a strategy, a checkpoint, shards that must have a revision in common). People want to know.
void RoundSyncs::note_replaced(const Round& round, const Outcome& outcome) {
  const state::Statement& own = *round.request.state;
  if (own.blank || own.lineage == Lineage{}) return;
  if (own.lineage == outcome.lineage && own.revision <= outcome.revision) return;
  context_.note({.kind = trace::Kind::kStateReplaced,
                 .view = {},
                 .peer = {},
                 .round = *round.key,
                 .number = outcome.revision,
                 .text = "revision " + std::to_string(own.revision) + " gave way to revision " +
                         std::to_string(outcome.revision) + " of " +
                         (own.lineage == outcome.lineage ? "the same lineage" : "another lineage")});
}

void RoundSyncs::note_repaired(const Round& round, const std::string& text) {
  if (text.empty()) return;
  context_.note({.kind = trace::Kind::kStateRepaired,
                 .view = {},
                 .peer = {},
                 .round = *round.key,
                 .number = round.sync->elected_revision(),
                 .text = text});
}

// ---- neighbours ----

void RoundSyncs::on_message(Round& round, PeerId from, StreamId stream, const wire::Message& message) {
  state::Sync::Messages answers;
  state::Sync& sync = *round.sync;
  const bool good = std::visit(
      overloaded{[&](const wire::AskDigests& in) { return sync.on_ask(from, in); },
                 [&](const wire::PieceDigests& in) { return sync.on_digests(from, in, context_.now, answers); },
                 [&](const wire::AskPieces& in) { return sync.on_ask(from, in); },
                 [&](const wire::HavePieces& in) { return sync.on_have(from, in); }, [](const auto&) { return false; }},
      message);
  say_all(answers);
  if (good) return;
  sync.distrust(from);
  if (std::holds_alternative<wire::PieceDigests>(message)) {
    return note_lie(from, "digests of a state that was not elected");
  }
  context_.mesh.reset(stream, "a message that does not fit the state that is shared", context_.now, context_.out());
}

ring::Operation::SegmentPlace RoundSyncs::on_piece_began(Round& round, PeerId from, StreamId stream,
                                                         const wire::Segment& segment) {
  return LocalStates::place_of(round.sync->begin(from, segment, stream, context_.now));
}

void RoundSyncs::on_piece_ended(Round& round, PeerId from, const wire::SegmentEnded& ended) {
  round.sync->landed(from, ended.segment, ended.taken_back, context_.now, context_.jobs.collected());
  start_jobs(round);
}

void RoundSyncs::say_all(const state::Sync::Messages& messages) {
  for (const auto& [to, message] : messages) (void)context_.mesh.say(to, message);
}

// The link is as good as ever. The coordinator shall neither lay rings around it nor part the two (rule 23).
void RoundSyncs::note_lie(PeerId peer, std::string what) {
  context_.note({.kind = trace::Kind::kProtocolError,
                 .view = {},
                 .peer = peer,
                 .round = {},
                 .status = Status::kProtocolError,
                 .text = std::move(what)});
}

// ---- watched states ----

void RoundSyncs::watch(Round& round, bool in_order) {
  if (round.request.watch) round.watch = states_.watch(round.request, round.order, in_order);
}

void RoundSyncs::begin_watch(Round& round) {
  if (!round.watch || round.watch_jobs || round.attempt->world() == 1) return;
  round.watch_jobs = context_.jobs.open(Jobs::Use::kWatch, round.order);
  round.watch->digest_some(context_.jobs.collected());
  context_.start_jobs(round.watch_jobs);
}

bool RoundSyncs::on_watch_job_done(Round& round, const JobDone& in) {
  (void)round.watch->job_done(Jobs::own(in.token), in.result);
  round.watch->digest_some(context_.jobs.collected());
  context_.start_jobs(round.watch_jobs);
  if (!round.watch->digested()) return false;
  states_.watched(round.order, *round.watch);
  return true;
}

bool RoundSyncs::end_watch(Round& round) {
  if (!round.watch) return true;
  round.watch->stop();
  return round.watch->jobs_running() == 0;
}

const state::Sync* RoundSyncs::watched(const Round& round, Generation attempt) {
  const bool compares =
      round.generation == attempt && round.is<stage::Done>() && round.knows_fingerprint() && round.fingerprint() != 0;
  return compares ? round.watch.get() : nullptr;
}

}  // namespace lockstep::peer
