// What the coordinator decides, carried out: proposals, views, commits, admission, the end of the run.
#include <algorithm>
#include <utility>

#include "core/base/mutant.h"
#include "core/base/overloaded.h"
#include "core/peer/machine.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

namespace {

bool has_member(const wire::View& view, PeerId peer) {
  return std::any_of(view.members.begin(), view.members.end(),
                     [&](const wire::Member& member) { return member.id == peer; });
}

}  // namespace

void Peer::Machine::on_decision(wire::Message message) {
  if (life_ == Life::kOver) return;
  std::visit(overloaded{
                 [&](wire::Propose& in) { on_propose(std::move(in)); },
                 [&](wire::Install& in) { on_install(in); },
                 [&](wire::Elected& in) { on_elected(in); },
                 [&](wire::AskOutline& in) { on_ask_outline(in); },
                 [&](wire::AskEntry& in) { on_ask_entry(in); },
                 [&](wire::Published& in) {
                   if (life_ == Life::kJoining) transfers_.on_published(std::move(in));
                 },
                 [&](wire::Commit& in) { on_commit(in); },
                 [&](wire::Admitting& in) { on_admitting(in); },
                 [&](wire::AdmitEnded& in) { on_admit_ended(in); },
                 [&](wire::Pending& in) { on_pending(in); },
                 [&](wire::Evicted& in) { end_run(in.status, "evicted by the coordinator: " + in.text); },
                 [&](wire::Left&) {
                   if (!leave_ || !leave_->said) return violation("let go of a peer that did not leave");
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

bool Peer::Machine::am_member_of(const wire::View& view) const { return has_member(view, context_.options.id); }

std::vector<wire::OpenRound> Peer::Machine::open_rounds() const {
  std::vector<wire::OpenRound> open;
  for (const auto& [order, round] : rounds_) {
    if (!round.open()) continue;
    open.push_back({round.key, round.attempt, round.said_all(), round.what.retry, round.hash});
  }
  for (const auto& [key, round] : reported_) open.push_back(round);
  return open;
}

// Nothing is proposed to one that is in nothing: it is asked whether it answers.
bool Peer::Machine::is_question(const wire::Propose& proposal) const {
  return context_.view->number.value == 0 && !proposal_ && proposal.view == *context_.view && proposal.lost.empty() &&
         proposal.left.empty() && proposal.relinked.empty() && proposal.kept.empty() && proposal.verdicts.empty();
}

// What no coordinator of ours proposes; nothing: it can be carried out. Everything behind it relies on this.
std::optional<std::string> Peer::Machine::fault_of(const wire::Propose& proposal) const {
  const wire::View& view = proposal.view;
  const auto number = [](const auto& n) { return std::to_string(n.value); };
  const auto names_me = [&](const std::vector<PeerId>& list) {
    return std::find(list.begin(), list.end(), context_.options.id) != list.end();
  };
  if (proposal.number <= last_proposal_) {
    return "made proposal " + number(proposal.number) + " after " + number(last_proposal_);
  }
  if (is_question(proposal)) return std::nullopt;
  if (context_.mesh.key() && *context_.mesh.key() != proposal.link_key) return "changed the key of the run";
  const auto by_group = [](const wire::Member& a, const wire::Member& b) { return a.group < b.group; };
  if (!std::is_sorted(view.members.begin(), view.members.end(), by_group)) {
    return "proposed a view whose groups are mixed up";
  }
  std::set<PeerId> ids;
  for (const wire::Member& member : view.members) {
    const std::string name = trace::short_name(member.id, member.name);
    if (member.id.is_nobody()) return "proposed a view with a member that has no id";
    if (!ids.insert(member.id).second) return "proposed a view with " + name + " in it twice";
    if (member.address.family == io::Address::Family::kNone || member.address.port == 0) {
      return "proposed a view in which " + name + " listens nowhere";
    }
    if (member.id == context_.options.id && member.group != context_.options.group)
      return "put this peer into another group";
  }

  const bool admits = view.cohort != context_.view->cohort;
  const bool changes = admits || !proposal.lost.empty() || !proposal.left.empty() || !proposal.relinked.empty();
  if (changes ? view.number <= context_.view->number : view.number != context_.view->number) {
    return "proposed view " + number(view.number) + " after " + number(context_.view->number);
  }
  if (view.cohort < context_.view->cohort)
    return "proposed cohort " + number(view.cohort) + " after " + number(context_.view->cohort);
  if (!changes && view.members != context_.view->members) return "proposed other members under the same number";
  const auto is_new = [&](const wire::Member& member) { return !has_member(*context_.view, member.id); };
  if (!admits && std::any_of(view.members.begin(), view.members.end(), is_new)) {
    return "proposed a new member without an admission";
  }

  // Only a peer that leaves gets views without itself.
  const bool cut = context_.view->number.value != 0 && !am_member_of(*context_.view);
  const bool leaves = cut || (leave_ && leave_->said && names_me(proposal.left));
  if (names_me(proposal.lost) || (names_me(proposal.left) && !leaves) || ids.contains(context_.options.id) == leaves) {
    return std::string(leaves ? "proposed to keep this peer, which has left" : "proposed a view without this peer");
  }
  return std::nullopt;
}

void Peer::Machine::on_propose(wire::Propose proposal) {
  if (const auto fault = fault_of(proposal)) return violation(*fault);
  last_proposal_ = proposal.number;
  if (is_question(proposal)) return context_.session.say(wire::Flush{proposal.number, {}});
  proposal_ = std::move(proposal);
  if (mutant(Mutant::kRingFromMyself)) {
    std::vector<wire::Member>& members = proposal_->view.members;
    std::stable_partition(members.begin(), members.end(),
                          [&](const auto& member) { return member.id == context_.options.id; });
  }
  for (const wire::Member& member : proposal_->view.members) addresses_[member.id] = member.address;
  context_.mesh.set_key(proposal_->link_key, context_.now, context_.out());
  context_.session.say(wire::Flush{proposal_->number, open_rounds()});
  update_links();
  const auto is_in = [&](PeerId peer) { return has_member(proposal_->view, peer); };
  context_.mesh.dismiss_visitors(is_in, context_.now, context_.out());
  renew_grace();
}

// The coordinator is at work, on one loss after another maybe: what it was asked for is answered after this change.
void Peer::Machine::renew_grace() {
  const Instant limit = context_.now + context_.options.abort_grace;
  if (admit_ && admit_->cancelled) admit_->deadline = limit;
  for (auto& [order, round] : rounds_) {
    if (round.stop && round.deadline != kNever) round.deadline = limit;
  }
}

// Somebody else whom the proposal would have admitted is gone, and the next one does not admit this peer.
void Peer::Machine::on_put_off() {
  if (!proposal_ || context_.view->number.value != 0) return violation("let a peer wait that it did not want to admit");
  proposal_.reset();
  update_links();
}

// A frozen round does nothing more that it could not take back: it is not done any more.
bool Peer::Machine::frozen(const Round& round) const {
  if (!proposal_ || mutant(Mutant::kDoneAfterFlush)) return false;
  const auto cohort = cohorts_.find(round.key.cohort);
  if (cohort == cohorts_.end()) return false;
  if (cohort->second.touched(round.key, round.attempt, *proposal_)) return true;
  return std::any_of(proposal_->verdicts.begin(), proposal_->verdicts.end(),
                     [&](const wire::Verdict& verdict) { return verdict.key == round.key; });
}

void Peer::Machine::on_install(const wire::Install& install) {
  if (!proposal_ || proposal_->number != install.number) return violation("installed what it had not proposed");
  const wire::Propose change = *std::exchange(proposal_, std::nullopt);
  const bool admission = change.view.cohort != context_.view->cohort;
  const bool rejoins = admission && am_member_of(change.view);
  for (const wire::Verdict& verdict : change.verdicts) on_verdict(verdict, rejoins);
  if (life_ == Life::kOver) return;
  give_up_touched(change);

  const bool changed = change.view.number != context_.view->number;
  const bool joins = life_ == Life::kJoining && am_member_of(change.view);
  context_.view = std::make_shared<const wire::View>(change.view);
  if (joins) {
    life_ = Life::kMember;
    transfers_.finish_prefetches(Status::kOk, {});
  }
  if (changed && am_member_of(*context_.view)) {  // a leaver that still finishes rounds is no member
    context_.out().emplace_back(Installed{context_.view});
    context_.note({.kind = joins ? trace::Kind::kJoined : trace::Kind::kViewChanged,
                   .view = context_.view->number,
                   .peer = {},
                   .round = {},
                   .number = context_.view->members.size(),
                   .text = {}});
  }
  if (admission) enter_cohort(change.view);
  forget_closers_that_are_gone();
  forget_stale_announcements();
  update_links();
  for (auto& [order, round] : rounds_) {
    if (round.state == Round::State::kHeld) begin_attempt(round);
    claim_if_digested(round);
    if (round.state == Round::State::kRunning) done_if_complete(round);
  }
  say_admit();
}

// `rejoins`: the proposal begins a new cohort, and this peer is in it.
void Peer::Machine::on_verdict(const wire::Verdict& verdict, bool rejoins) {
  if (life_ == Life::kOver || verdict.key.group != context_.options.group) return;
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
  Cohort* cohort = cohort_of(verdict.key);
  if (cohort != nullptr) cohort->forget_kept(verdict.key);
  if (cohort == nullptr || verdict.key.cohort != context_.view->cohort || verdict.status == Status::kOk) return;
  if (is_earlier_use(verdict.key.use, cohort->uses.next(verdict.key.tag)) || mutant(Mutant::kUsedUpForgotten)) return;
  if (cohort->used_up.size() >= kMaxRememberedOutcomes) cohort->used_up.erase(cohort->used_up.begin());
  cohort->used_up.emplace(verdict.key, verdict);
}

// Rounds that lost a member, and have no verdict, are attempted again in the new generation; those that must not be are over.
void Peer::Machine::give_up_touched(const wire::Propose& change) {
  if (change.lost.empty() && change.left.empty() && change.relinked.empty()) return;
  const bool cut = !am_member_of(change.view);
  for (auto& [order, round] : rounds_) {
    if (!round.open()) continue;
    const Cohort* cohort = cohort_of(round.key);
    if (cohort == nullptr || !cohort->touched(round.key, round.attempt, change)) continue;
    if (mutant(Mutant::kDoneCommitsOnLoss) && round.state == Round::State::kDone) {
      finish(round, outcome_of(round, Status::kOk, {}), false);
    } else if (cut) {
      const char* const why = cohort->loses(change, round.attempt) ? "a member was lost"
                              : cohort->needs_any(change.left, round.attempt)
                                  ? "another member left"
                                  : "the ring was laid around a broken link";
      finish(round, outcome_of(round, Status::kOutcomeUnknown, std::string(why) + " while this peer was leaving"),
             true);
    } else if (round.state != Round::State::kHeld && !round.what.retry && !mutant(Mutant::kRetriesWhatMustNot)) {
      const bool lost = cohort->loses(change, round.attempt);
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
  for (auto& [id, cohort] : cohorts_) {
    cohort.install(change);
    // What was committed while the proposal was open is not kept.
    std::erase_if(cohort.kept, [&, &uses = cohort.uses](const auto& entry) {
      return is_earlier_use(entry.first.use, uses.next(entry.first.tag)) && find(entry.first) == nullptr;
    });
    cohort.drop_unused();
  }
  for (auto& [order, round] : rounds_) {
    if (!round.open()) continue;
    if (const Cohort* cohort = cohort_of(round.key)) round.attempt = cohort->attempt_of(round.key);
  }
}

void Peer::Machine::enter_cohort(const wire::View& view) {
  cohorts_.insert_or_assign(view.cohort, Cohort::founded(view, context_.options.group, context_.options.first_use));
  pending_ = 0;
  context_.out().emplace_back(PendingChanged{});
  if (connect_) end_waiting(connect_, Status::kOk, {});
  if (admit_) admitted(view.members.size());
  for (auto& [order, round] : rounds_) {
    const bool waits = admit_ && order > admit_->launches;  // for the cohort after this one
    if ((round.state == Round::State::kQueued && !waits) || round.requeue) enter(round);
  }
}

// With auto_admit there may be fewer than the call wants: it is said again.
void Peer::Machine::admitted(std::size_t members) {
  const bool enough = !context_.options.auto_admit || members >= admit_->at_least;
  if (enough || mutant(Mutant::kAdmitUnderstated)) return end_waiting(admit_, Status::kOk, {});
  if (admit_->cancelled) return end_waiting(admit_, *admit_->cancelled, "the run has too few members");
  admit_->said = false;
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
      done ? std::pair{round->attempt, round->hash} : std::pair{reported->second.attempt, reported->second.hash};
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
  if (!admit_ || !admit_->cancelled) return violation("ended an admit that this peer has not given up");
  give_up_admit(ended.status, ended.text);
}

// The call of admit ends without an admission. With auto_admit others may have joined it: then this peer stays in, by itself.
void Peer::Machine::give_up_admit(Status status, const std::string& text) {
  end_waiting(admit_, status, text);
  if (joins_admission(cohorts_.at(context_.view->cohort))) admit_by_itself();
  for (auto& [order, round] : rounds_) {
    if (round.state == Round::State::kQueued && !admit_) enter(round);
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
  if (!has_member(*context_.view, in.peer)) return;
  Cohort* cohort = newest_cohort();
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
  if (joins_admission(*cohort)) admit_by_itself();
  for (auto& [order, round] : rounds_) {
    if (round.open()) refuse_if_closed(round);
  }
}

// With auto_admit a member that has admitted takes the others with it, unless it waits for more members than there are.
bool Peer::Machine::joins_admission(const Cohort& cohort) const {
  return context_.options.auto_admit && std::any_of(cohort.closers.begin(), cohort.closers.end(),
                                                    [&](const auto& entry) { return enough(entry.second.at_least); });
}

// And calls that wait for those who have admitted go on in the next cohort, if there will be one now: once somebody admits by
// itself it waits for nobody's numbers. Otherwise they are refused, as they are without. A leaver's are closed by that admission.
bool Peer::Machine::goes_on_by_admission(const Cohort& cohort) const {
  if (life_ == Life::kLeaving && joins_admission(cohort)) return true;
  if (!context_.options.auto_admit || !admit_) return false;
  if (admit_->by_itself || admit_->said_by_itself) return true;
  const auto is = [&](auto what) { return std::any_of(cohort.closers.begin(), cohort.closers.end(), what); };
  if (is([](const auto& entry) { return entry.second.by_itself; })) return true;
  return enough(admit_->at_least) && !is([&](const auto& entry) { return !enough(entry.second.at_least); });
}

// Those who have admitted and are no members any more keep nothing from being launched.
void Peer::Machine::forget_closers_that_are_gone() {
  Cohort* cohort = newest_cohort();
  if (cohort == nullptr) return;
  const auto gone = [&](const auto& entry) { return !has_member(*context_.view, entry.first); };
  if (std::erase_if(cohort->closers, gone) > 0) refuse_anew();
}

void Peer::Machine::on_pending(const wire::Pending& pending) {
  pending_ = pending.count;
  context_.out().emplace_back(PendingChanged{pending_, pending.fetching});
  const Cohort* cohort = newest_cohort();
  if (cohort != nullptr && joins_admission(*cohort)) admit_by_itself();
}

void Peer::Machine::end_left() {
  end_waiting(leave_, Status::kOk, {});
  end_run(Status::kNotConnected, "this peer has left the run", true);
}

void Peer::Machine::end_run(Status status, std::string text, bool left) {
  if (life_ == Life::kOver) return;
  life_ = Life::kOver;
  over_status_ = status == Status::kEvicted ? status : Status::kNotConnected;
  over_text_ = std::move(text);
  proposal_.reset();
  context_.session.finish(context_.now, context_.out());
  if (left) {
    context_.note({.kind = trace::Kind::kLeft, .view = context_.view->number, .peer = {}, .round = {}, .text = {}});
  } else {
    context_.note({.kind = trace::Kind::kRunLost,
                   .view = context_.view->number,
                   .peer = {},
                   .round = {},
                   .status = status,
                   .text = over_text_});
  }
  context_.out().emplace_back(RunOver{status, over_text_, left});
  end_waiting(connect_, status, over_text_);
  end_waiting(admit_, status, over_text_);
  end_waiting(leave_, status, over_text_);
  for (auto& [order, round] : rounds_) {
    if (round.state == Round::State::kEnding && round.outcome) continue;
    const bool known = round.state == Round::State::kQueued;
    finish(round, outcome_of(round, known ? status : Status::kOutcomeUnknown, over_text_),
           !mutant(Mutant::kRestoresNothing));
  }
  transfers_.finish(status, over_text_);
  context_.mesh.close_all(context_.out());
  announcements_.clear();
  for (auto& [id, cohort] : cohorts_) cohort.used_up.clear();
  reported_.clear();
}

// Which neighbours are needed: those of every ring that is in use, and those of the view to come.
void Peer::Machine::update_links() {
  std::map<PeerId, Mesh::Wanted> neighbours;
  const auto need_links_of = [&](const Cohort::Membership& membership) {
    const std::vector<PeerId>& ring = *membership.ring;
    const auto me = std::find(ring.begin(), ring.end(), context_.options.id);
    if (me == ring.end() || ring.size() < 2) return;
    const auto at = static_cast<std::size_t>(me - ring.begin());
    for (const PeerId peer : {ring[(at + 1) % ring.size()], ring[(at + ring.size() - 1) % ring.size()]}) {
      neighbours[peer] = {addresses_.at(peer), true};
    }
    if (!membership.direct && !goes_direct_) return;
    for (const PeerId peer : ring) {  // to be told that we are done, or for rounds that go direct
      if (peer == context_.options.id) continue;
      neighbours.try_emplace(peer, Mesh::Wanted{addresses_.at(peer), false, std::nullopt, goes_direct_});
    }
  };
  if (life_ != Life::kOver) {
    for (const auto& [id, cohort] : cohorts_) {
      if (id == context_.view->cohort) need_links_of(cohort.now());
      if (proposal_) need_links_of(cohort.membership_in(proposal_->view, &cohort.now()));
      for (const auto& [key, generation] : cohort.kept) need_links_of(cohort.generations.at(generation));
    }
    for (const auto& [order, round] : rounds_) {
      if (!round.open()) continue;
      if (round.sync && round.attempted()) {
        for (const PeerId peer : round.sync->partners()) {
          neighbours.try_emplace(peer, Mesh::Wanted{addresses_.at(peer), false});
        }
      }
      const Cohort* cohort = cohort_of(round.key);
      if (cohort != nullptr && cohort->generations.contains(round.attempt))
        need_links_of(cohort->generations.at(round.attempt));
    }
    transfers_.add_sources(neighbours);
    if (proposal_) need_links_of(Cohort::founded(proposal_->view, context_.options.group).now());
  }
  context_.mesh.want(neighbours, context_.now, context_.out());
  announcements_.forget_others([&](PeerId peer) { return neighbours.contains(peer); });
  std::erase_if(addresses_, [&](const auto& entry) {
    const bool kept = std::any_of(cohorts_.begin(), cohorts_.end(), [&](const auto& cohort) {
      return std::any_of(cohort.second.generations.begin(), cohort.second.generations.end(),
                         [&](const auto& generation) {
                           const auto& ring = *generation.second.ring;
                           return std::find(ring.begin(), ring.end(), entry.first) != ring.end();
                         });
    });
    return !kept && !has_member(*context_.view, entry.first) &&
           !(proposal_ && has_member(proposal_->view, entry.first));
  });
}

}  // namespace lockstep::peer
