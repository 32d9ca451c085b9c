// Shared state: a sync is a round whose members claim a state each; those who do not have the one that is elected take it over from
// those who do. What is asked and sent is state::Sync's.
#include <utility>

#include "core/base/overloaded.h"
#include "core/peer/machine.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

void Peer::Machine::begin_sync(Round& round) {
  if (!round.sync) {
    round.sync = states_.new_sync(round.request);
    states_.recall(round.key.tag, round.what.layout, *round.sync);
  }
  round.attempt->jobs = context_.jobs.open(Jobs::Use::kRound, round.order);
  round.state = Round::State::kDigests;
  round.sync->digest_some(context_.jobs.collected());
  start_jobs(round);
  claim_if_digested(round);
}

void Peer::Machine::claim_if_digested(Round& round) {
  if (round.state != Round::State::kDigests || !round.sync->digested() || views_.freezes(round.key, round.generation))
    return;
  round.state = Round::State::kClaimed;
  const state::Claim claim = round.sync->claim();
  context_.session.say(
      wire::Claim{round.key, round.generation, round.what, claim.strategy, claim.defined, claim.revision, claim.root});
}

Round* Peer::Machine::claimed(const RoundKey& key, Generation attempt, const std::string& said) {
  Round* round = find(key);
  if (round == nullptr || round->generation != attempt || round->state == Round::State::kEnding) return nullptr;
  if (round->state == Round::State::kClaimed) return round;
  violation(said + " a state in a round that this peer has claimed none in");
  return nullptr;
}

const state::Sync* Peer::Machine::compared(const RoundKey& key, Generation attempt, const std::string& said) {
  const Round* watching = find(key);
  if (watching != nullptr && watching->generation == attempt && watching->state == Round::State::kDone &&
      watching->knows_parity() && watching->parity() != 0) {
    return watching->watch.get();
  }
  const Round* round = claimed(key, attempt, said);
  return round == nullptr ? nullptr : round->sync.get();
}

void Peer::Machine::on_ask_outline(const wire::AskOutline& ask) {
  const state::Sync* state = compared(ask.key, ask.attempt, "asked what is in");
  if (state == nullptr) return;
  const auto outline = state->outline(ask);
  if (!outline) return violation("asked what is in a state that is undefined");
  context_.session.say(*outline);
}

void Peer::Machine::on_ask_entry(const wire::AskEntry& ask) {
  const state::Sync* state = compared(ask.key, ask.attempt, "asked for an entry of");
  if (state == nullptr) return;
  const auto entry = state->entry(ask);
  if (!entry) return violation("asked for an entry that a state does not have");
  context_.session.say(*entry);
}

void Peer::Machine::on_elected(const wire::Elected& elected) {
  Round* round = claimed(elected.key, elected.attempt, "elected");
  if (round == nullptr) return;
  for (const auto* list : {&elected.sources, &elected.receivers}) {
    for (const PeerId peer : *list) {
      const auto& ring = *round->attempt->ring;
      if (std::find(ring.begin(), ring.end(), peer) == ring.end()) return violation("elected a state of no member");
    }
  }
  if (!round->sync->fits(elected)) return violation("elected a state that this peer neither has nor may take over");
  round->sync->elected(elected);
  round->hash = elected.root.low;
  round->state = round->sync->receives() ? Round::State::kRunning : Round::State::kDone;
  update_links();
}

// After every step: what can be asked is asked, and what is complete is said.
void Peer::Machine::drive_syncs() {
  std::optional<std::set<PeerId>> linked;
  for (auto& [order, round] : rounds_) {
    if (!round.sync || !round.attempted() || round.sync->partners().empty()) continue;
    if (!linked) linked = context_.mesh.linked();
    state::Sync::Messages messages;
    round.sync->ask(*linked, context_.now, messages);
    say_all(messages);
    stop_if_nobody_is_left(round);
    if (round.state != Round::State::kRunning || !round.sync->complete() || views_.freezes(round.key, round.generation))
      continue;
    round.state = Round::State::kDone;
    context_.session.say(wire::Done{round.key, round.generation, round.what, round.hash});
  }
}

// It cannot be said who is to blame, and the run goes on without the state: only the attempt ends, for all.
void Peer::Machine::stop_if_nobody_is_left(Round& round) {
  const bool stranded = round.sync->is_stranded();
  if (!stranded && !round.sync->is_cut_off()) return;
  std::string sources;
  for (const PeerId source : round.sync->sources()) sources += (sources.empty() ? "" : ", ") + context_.name_of(source);
  ask_to_stop(round, Status::kAborted,
              context_.name_of(context_.options.id) + " has nobody left to take the state over from: " +
                  (stranded ? "what it got is not the state that was claimed by " : "it cannot reach ") + sources);
}

void Peer::Machine::say_all(const state::Sync::Messages& messages) {
  for (const auto& [to, message] : messages) (void)context_.mesh.say(to, message);
}

void Peer::Machine::on_state_message(PeerId from, StreamId stream, const wire::Message& message) {
  const auto key_of = overloaded{[](const wire::AskDigests& in) { return std::pair(in.key, in.attempt); },
                                 [](const wire::PieceDigests& in) { return std::pair(in.key, in.attempt); },
                                 [](const wire::AskPieces& in) { return std::pair(in.key, in.attempt); },
                                 [](const wire::HavePieces& in) { return std::pair(in.key, in.attempt); },
                                 [](const auto&) { return std::pair(RoundKey{}, Generation{}); }};
  const auto [key, attempt] = std::visit(key_of, message);
  Round* round = find(key);
  if (round == nullptr || !round->sync || !round->runs(key, attempt)) return;  // it asks again
  state::Sync::Messages answers;
  state::Sync& sync = *round->sync;
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

// The link is as good as ever: it is not for the coordinator to lay rings around it, or to part the two.
void Peer::Machine::note_lie(PeerId peer, std::string what) {
  context_.note({.kind = trace::Kind::kProtocolError,
                 .view = {},
                 .peer = peer,
                 .round = {},
                 .status = Status::kProtocolError,
                 .text = std::move(what)});
}

ring::Operation::Place Peer::Machine::on_piece_began(PeerId from, StreamId stream, const wire::Segment& segment) {
  using Landing = ring::Operation::Landing;
  Round* round = find(segment.key);
  if (round == nullptr || !round->sync || !round->runs(segment.key, segment.attempt)) return {Landing::kSink, {}};
  return LocalStates::place_of(round->sync->begin(from, segment, stream, context_.now));
}

void Peer::Machine::on_piece_ended(PeerId from, const wire::SegmentEnded& ended) {
  Round* round = find(ended.segment.key);
  if (round == nullptr || !round->sync || !round->runs(ended.segment.key, ended.segment.attempt)) return;
  round->sync->landed(from, ended.segment, ended.taken_back, context_.now, context_.jobs.collected());
  start_jobs(*round);
}

void Peer::Machine::sync_job_done(Round& round, const JobDone& in) {
  const auto liar = LocalStates::job_done(*round.sync, round.call, in, context_.out());
  if (liar) note_lie(*liar, "a piece of the state whose digest is wrong");
  if (round.state != Round::State::kDigests) return;
  round.sync->digest_some(context_.jobs.collected());
  start_jobs(round);
  claim_if_digested(round);
}

// The attempt is over: what is in memory now. Its pieces stay for the next one.
void Peer::Machine::end_sync(Round& round) {
  context_.jobs.close(round.attempt->jobs);
  state::Sync& sync = *round.sync;
  if (!round.outcome) return sync.begin_again();
  Outcome& outcome = *round.outcome;
  states_.remember(round.key.tag, round.what.layout, sync, outcome.status == Status::kOk);
  states_.note_torn(round.request.tag, sync);
  LocalStates::describe(sync, admission_.is_member(), outcome);
  round.bytes_sent = sync.bytes_sent();
  round.bytes_received = sync.bytes_received();
}

// ---- states that are watched beside other rounds ----

void Peer::Machine::watch(Round& round) {
  if (round.request.watch) round.watch = states_.watch(round.request, round.order);
}

void Peer::Machine::begin_watch(Round& round) {
  if (!round.watch || round.watch_jobs || round.attempt->world() == 1) return;
  round.watch_jobs = context_.jobs.open(Jobs::Use::kWatch, round.order);
  round.watch->digest_some(context_.jobs.collected());
  context_.start_jobs(*round.watch_jobs);
}

void Peer::Machine::watch_job_done(Round& round, const JobDone& in) {
  (void)round.watch->job_done(Jobs::own(in.token), in.result);
  round.watch->digest_some(context_.jobs.collected());
  context_.start_jobs(*round.watch_jobs);
  if (!round.watch->digested()) return;
  states_.watched(round.order, *round.watch);
  done_if_complete(round);
}

// False: jobs still read the memory.
bool Peer::Machine::end_watch(Round& round) {
  if (!round.watch) return true;
  round.watch->stop();
  return round.watch->jobs_running() == 0;
}

}  // namespace lockstep::peer
