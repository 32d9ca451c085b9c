// What the coordinator decides, carried out: proposals, views, commits, admission, the end of the run.
#include <algorithm>
#include <utility>

#include "core/base/mutant.h"
#include "core/base/overloaded.h"
#include "core/peer/machine.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

void Peer::Machine::on_decision(wire::Message message) {
  if (admission_.is_over()) return;
  std::visit(overloaded{
                 [&](wire::Propose& in) { on_propose(std::move(in)); },
                 [&](wire::Install& in) { on_install(in); },
                 [&](wire::Elected& in) { on_elected(in); },
                 [&](wire::AskOutline& in) { on_ask_outline(in); },
                 [&](wire::AskEntry& in) { on_ask_entry(in); },
                 [&](wire::Published& in) {
                   if (admission_.life() == Life::kJoining) transfers_.on_published(std::move(in));
                 },
                 [&](wire::Commit& in) { on_commit(in); },
                 [&](wire::Admitting& in) { on_admitting(in); },
                 [&](wire::AdmitEnded& in) { on_admit_ended(in); },
                 [&](wire::Pending& in) { on_pending(in); },
                 [&](wire::Evicted& in) { end_run(in.status, "evicted by the coordinator: " + in.text); },
                 [&](wire::Left&) {
                   if (!admission_.has_said_leave()) return violation("let go of a peer that did not leave");
                   end_left();
                 },
                 [&](wire::Refused& in) { end_run(in.status, "refused by the coordinator: " + in.text); },
                 [&](wire::Waiting&) { on_put_off(); },
                 [&](auto&) { violation("said what a coordinator does not say"); },
             },
             message);
}

void Peer::Machine::violation(const std::string& what) {
  end_run(Status::kProtocolError, "the coordinator " + what + "; left the run");
}

void Peer::Machine::on_unanswered(std::string text) {
  context_.note({.kind = trace::Kind::kUnanswered, .view = {}, .peer = {}, .round = {}, .text = std::move(text)});
}

void Peer::Machine::on_session_over(Status status, std::string text) { end_run(status, std::move(text)); }

std::vector<wire::OpenRound> Peer::Machine::open_rounds() const {
  std::vector<wire::OpenRound> open;
  for (const auto& [order, round] : rounds_) {
    if (!round.open()) continue;
    open.push_back({round.key, round.generation, round.said_all(), round.what.retry, round.hash});
  }
  for (const auto& [key, round] : reported_) open.push_back(round);
  return open;
}

// Rule 4: every proposal is answered with the rounds that are open here.
void Peer::Machine::on_propose(wire::Propose proposal) {
  if (const auto flaw = views_.validate(proposal, admission_.has_said_leave())) return violation(*flaw);
  const ProposalNumber number = proposal.number;
  const LinkKey key = proposal.link_key;
  const bool question = views_.is_question(proposal);
  views_.propose(std::move(proposal));
  if (question) return context_.session.say(wire::Flush{number, {}});
  context_.mesh.set_key(key, context_.now, context_.out());
  context_.session.say(wire::Flush{number, open_rounds()});
  update_links();
  const auto is_in = [&](PeerId peer) { return Views::has_member(views_.proposal()->view, peer); };
  context_.mesh.dismiss_visitors(is_in, context_.now, context_.out());
  renew_grace();
}

// The coordinator is at work, on one loss after another maybe: what it was asked for is answered after this change.
void Peer::Machine::renew_grace() {
  const Instant limit = context_.now + context_.options.abort_grace;
  admission_.renew_grace(limit);
  for (auto& [order, round] : rounds_) {
    if (round.stop && round.deadline != kNever) round.deadline = limit;
  }
}

// Somebody else whom the proposal would have admitted is gone, and the next one does not admit this peer.
void Peer::Machine::on_put_off() {
  if (!views_.proposal() || context_.view->number.value != 0)
    return violation("let a peer wait that it did not want to admit");
  views_.withdraw();
  update_links();
}

void Peer::Machine::on_install(const wire::Install& install) {
  if (!views_.proposal() || views_.proposal()->number != install.number) {
    return violation("installed what it had not proposed");
  }
  const wire::Propose change = views_.take_proposal();
  const bool admission = change.view.cohort != context_.view->cohort;
  const bool rejoins = admission && views_.is_in(change.view);
  for (const wire::Verdict& verdict : change.verdicts) on_verdict(verdict, rejoins);
  if (admission_.is_over()) return;
  give_up_touched(change);

  const bool changed = change.view.number != context_.view->number;
  const bool joins = admission_.life() == Life::kJoining && views_.is_in(change.view);
  context_.view = std::make_shared<const wire::View>(change.view);
  if (joins) {
    admission_.become_member();
    transfers_.finish_prefetches(Status::kOk, {});
  }
  if (changed && views_.is_in(*context_.view)) {  // a leaver that still finishes rounds is no member
    context_.out().emplace_back(Installed{context_.view});
    context_.note({.kind = joins ? trace::Kind::kJoined : trace::Kind::kViewChanged,
                   .view = context_.view->number,
                   .peer = {},
                   .round = {},
                   .number = context_.view->members.size(),
                   .text = {}});
  }
  if (admission) enter_cohort(change.view);
  if (views_.forget_closers()) refuse_anew();
  forget_stale_announcements();
  update_links();
  for (auto& [order, round] : rounds_) {
    if (round.state == Round::State::kHeld) begin_attempt(round);
    syncs_.claim_if_digested(round);
    if (round.state == Round::State::kRunning) done_if_complete(round);
  }
  say_admit();
}

// `rejoins`: the proposal begins a new cohort, and this peer is in it.
void Peer::Machine::on_verdict(const wire::Verdict& verdict, bool rejoins) {
  if (admission_.is_over() || verdict.key.group != context_.options.group) return;
  if (reported_.contains(verdict.key)) {
    if (verdict.status != Status::kOk) return violation("took back a round that all members had agreed on");
    return on_commit(wire::Commit{verdict.key, verdict.attempt, verdict.hash, false, verdict.text});
  }
  Round* round = find(verdict.key);
  if (round != nullptr) {
    if (round->state == Round::State::kEnding && round->outcome) return;
    if (verdict.status == Status::kOk) {
      return on_commit(wire::Commit{verdict.key, verdict.attempt, verdict.hash, false, verdict.text});
    }
    if (verdict.status == Status::kCohortClosed && rejoins && context_.options.auto_admit) {
      round->requeue = true;
      return finish(*round, std::nullopt, true);
    }
    return finish(*round, outcome_of(*round, verdict.status, verdict.text), true);
  }
  // Not launched yet, or long over.
  announcements_.forget(verdict.key);
  if (Cohort* cohort = views_.cohort_of(verdict.key)) cohort->forget_kept(verdict.key);
  views_.remember(verdict);
}

// Rounds that lost a member, and have no verdict, are attempted again in the new generation; those that must not be
// are over.
void Peer::Machine::give_up_touched(const wire::Propose& change) {
  if (change.lost.empty() && change.left.empty() && change.relinked.empty()) return;
  const bool cut = !views_.is_in(change.view);
  for (auto& [order, round] : rounds_) {
    if (!round.open()) continue;
    const Cohort* cohort = views_.cohort_of(round.key);
    if (cohort == nullptr || !cohort->touched(round.key, round.generation, change)) continue;
    if (mutant(Mutant::kDoneCommitsOnLoss) && round.state == Round::State::kDone) {
      finish(round, outcome_of(round, Status::kOk, {}), false);
    } else if (cut) {
      const char* const why = cohort->loses(change, round.generation) ? "a member was lost"
                              : cohort->needs_any(change.left, round.generation)
                                  ? "another member left"
                                  : "the ring was laid around a broken link";
      finish(round, outcome_of(round, Status::kOutcomeUnknown, std::string(why) + " while this peer was leaving"),
             true);
    } else if (round.state != Round::State::kHeld && !round.what.retry && !mutant(Mutant::kRetriesWhatMustNot)) {
      const bool lost = cohort->loses(change, round.generation);
      finish(round,
             outcome_of(round, lost ? Status::kPeerLost : Status::kWorldChanged,
                        "too many rounds were cut short with tag " + std::to_string(round.key.tag.value)),
             true);
    } else if (round.state != Round::State::kHeld) {
      ++round.retries;
      context_.note(
          {.kind = trace::Kind::kRoundRetried, .view = change.view.number, .peer = {}, .round = round.key, .text = {}});
      finish(round, std::nullopt, true);
    }
  }
  views_.install(change, [&](const RoundKey& key) { return find(key) != nullptr; });
  for (auto& [order, round] : rounds_) {
    if (!round.open()) continue;
    if (const Cohort* cohort = views_.cohort_of(round.key)) round.generation = cohort->attempt_of(round.key);
  }
}

void Peer::Machine::enter_cohort(const wire::View& view) {
  views_.found(view);
  admission_.enter_cohort(view.members.size());
  for (auto& [order, round] : rounds_) {
    if ((round.state == Round::State::kQueued && !admission_.waits(order)) || round.requeue) enter(round);
  }
}

void Peer::Machine::on_commit(const wire::Commit& commit) {
  Round* const claimed = find(commit.key);
  if (claimed != nullptr && claimed->state == Round::State::kClaimed && claimed->sync->defined()) {
    claimed->state = Round::State::kDone;  // all have claimed the same
    claimed->hash = claimed->sync->root().low;
  }
  const auto reported = reported_.find(commit.key);
  Round* const round = reported == reported_.end() ? find(commit.key) : nullptr;
  const bool done = round != nullptr && round->state == Round::State::kDone;
  if (reported == reported_.end() && !done) return violation("committed a round that this peer has not finished");
  const auto [attempt, hash] =
      done ? std::pair{round->generation, round->hash} : std::pair{reported->second.attempt, reported->second.hash};
  if (attempt != commit.attempt) return violation("committed a round that this peer has not finished");
  if (hash != commit.hash && !mutant(Mutant::kDifferingCommits))
    return violation("committed another result than this peer's");
  if (done) {
    Outcome outcome = outcome_of(*round, Status::kOk, {});
    outcome.parity = commit.parity;
    finish(*round, std::move(outcome), false);
  } else {
    reported_.erase(reported);
  }
  if (commit.admit_here && context_.options.auto_admit && commit.key.cohort == context_.view->cohort) admit_by_itself();
}

void Peer::Machine::on_admit_ended(const wire::AdmitEnded& ended) {
  if (!admission_.is_cancelled()) return violation("ended an admit that this peer has not given up");
  give_up_admit(ended.status, ended.text);
}

// The call of admit ends without an admission. With auto_admit others may have joined it: then this peer stays in, by
// itself.
void Peer::Machine::give_up_admit(Status status, const std::string& text) {
  admission_.end_admit(status, text);
  if (admission_.joins(*views_.newest())) admit_by_itself();
  for (auto& [order, round] : rounds_) {
    if (round.state == Round::State::kQueued && !admission_.admits()) enter(round);
  }
}

// Of those who had admitted one has not, any more.
void Peer::Machine::refuse_anew() {
  for (auto& [order, round] : rounds_) {
    if (!round.stop || round.stop->status != Status::kCohortClosed || !round.open()) continue;
    round.stop.reset();
    round.deadline = round.limit;
    refuse_if_closed(round);
  }
}

void Peer::Machine::on_admitting(const wire::Admitting& in) {
  if (!Views::has_member(*context_.view, in.peer)) return;
  Cohort* cohort = views_.newest();
  if (cohort == nullptr) return;
  if (in.cohort.value == 0) {
    // It launches again. What was to be stopped on its account goes on; a stop that was heeded comes as a verdict.
    cohort->closers.erase(in.peer);
    return refuse_anew();
  }
  if (in.cohort != cohort->id) return;
  Cohort::Closer& closer = cohort->closers[in.peer];
  closer = {.at_least = in.at_least, .by_itself = in.by_itself, .open = {}};
  for (const wire::OpenRound& round : in.open) closer.open.insert(round.key);
  if (admission_.joins(*cohort)) admit_by_itself();
  for (auto& [order, round] : rounds_) {
    if (round.open()) refuse_if_closed(round);
  }
}

void Peer::Machine::on_pending(const wire::Pending& pending) {
  admission_.on_pending(pending);
  const Cohort* cohort = views_.newest();
  if (cohort != nullptr && admission_.joins(*cohort)) admit_by_itself();
}

void Peer::Machine::end_left() {
  admission_.end_leave();
  end_run(Status::kNotConnected, "this peer has left the run", true);
}

void Peer::Machine::end_run(Status status, std::string text, bool left) {
  if (admission_.is_over()) return;
  admission_.begin_end(status, std::move(text));
  const std::string& over_text = admission_.over_text();
  views_.withdraw();
  context_.session.finish(context_.now, context_.out());
  if (left) {
    context_.note({.kind = trace::Kind::kLeft, .view = context_.view->number, .peer = {}, .round = {}, .text = {}});
  } else {
    context_.note({.kind = trace::Kind::kRunLost,
                   .view = context_.view->number,
                   .peer = {},
                   .round = {},
                   .status = status,
                   .text = over_text});
  }
  context_.out().emplace_back(RunOver{status, over_text, left});
  admission_.end_calls(status);
  for (auto& [order, round] : rounds_) {
    if (round.state == Round::State::kEnding && round.outcome) continue;
    const bool known = round.state == Round::State::kQueued;
    finish(round, outcome_of(round, known ? status : Status::kOutcomeUnknown, over_text),
           !mutant(Mutant::kRestoresNothing));
  }
  transfers_.finish(status, over_text);
  context_.mesh.close_all(context_.out());
  announcements_.clear();
  views_.forget_outcomes();
  reported_.clear();
}

// The links that are needed: those of every ring that is in use, those of the view that is proposed, and those of
// syncs and transfers.
void Peer::Machine::update_links() {
  Views::Links links;
  if (!admission_.is_over()) {
    views_.add_rings(goes_direct_, links);
    for (const auto& [order, round] : rounds_) {
      if (!round.open()) continue;
      if (round.sync && round.attempted()) {
        for (const PeerId peer : round.sync->partners()) {
          links.try_emplace(peer, Mesh::Wanted{views_.address_of(peer), false});
        }
      }
      const Cohort* cohort = views_.cohort_of(round.key);
      if (cohort != nullptr && cohort->generations.contains(round.generation)) {
        views_.add_ring(cohort->generations.at(round.generation), goes_direct_, links);
      }
    }
    transfers_.add_sources(links);
    views_.add_proposed_ring(goes_direct_, links);
  }
  context_.mesh.want(links, context_.now, context_.out());
  announcements_.forget_others([&](PeerId peer) { return links.contains(peer); });
  views_.forget_addresses();
}

}  // namespace lockstep::peer
