#include "sim/world/call_judge.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/checkers/l4_time_outs.h"
#include "sim/checkers/p1_bytes.h"
#include "sim/checkers/p2_time.h"
#include "sim/checkers/p4_choice.h"
#include "sim/checkers/s10_mismatch.h"
#include "sim/checkers/s3_restored.h"
#include "sim/checkers/s4_hands_off.h"

namespace lockstep::sim {

void CallJudge::check_loans_of(const SimProcess& process, const Call& call) {
  if (call.buffers.empty()) return;
  StreamId stream;
  JobToken job;
  for (const BufferId buffer : call.buffers) {
    if (stream == StreamId{}) stream = network_.lent_to(process.index, buffer);
    for (const KernelRun& j : process.jobs) {
      if (j.busy && memory_of(j.job.work).uses(buffer)) job = j.job.token;
    }
  }
  chronicle_.check("S4", check_loans_are_back(call, stream, job));
}

void CallJudge::judge_collective(const SimProcess& process, const Call& call, bool healed, bool news) {
  const peer::Outcome& outcome = *call.outcome;
  const FindCall find = [&](PeerId peer, const RoundKey& round) { return cast_.contribution(peer, round); };
  if (is_among_liars(call)) {
    const wire::View* const of_liars = checkers_.membership.founding(outcome.round.cohort);
    static_cast<void>(checkers_.causes.aborted(call, of_liars, find, true));  // it counts who takes part
    return;
  }
  chronicle_.check("S10", check_mismatch(call, find));
  const auto lives = [&](PeerId peer) { return !checkers_.causes.excuses().life(cast_.by_id.at(peer)).gone(); };
  const auto done = [&](PeerId peer) {
    const Call* const theirs = cast_.contribution(peer, outcome.round);
    return theirs != nullptr && theirs->outcome && theirs->outcome->status == Status::kOk;
  };
  if (!chronicle_.over())
    chronicle_.check("S2", checkers_.flips.ended(call, checkers_.causes.only_bits_flip(), lives, done));
  const std::vector<PeerId>* const contributors = outcome.contributors.get();
  const bool rewritten = contributors != nullptr && std::ranges::any_of(*contributors, [&](PeerId peer) {
                           const Call* const theirs = find(peer, outcome.round);
                           return theirs != nullptr && theirs->data.rewritten;
                         });
  if (!chronicle_.over() && !rewritten && !checkers_.flips.nobody_compares(call, lives, done)) {
    chronicle_.check("S2", check_fold(process, call, find));
    if (!chronicle_.over() && news) chronicle_.check("S2", check_receivers(call, find));
  }
  if (!chronicle_.over()) chronicle_.check("S5", checkers_.one_state.ended(call, *process.memory, find));
  const auto name_of_peer = [&](const Call& of) { return cast_.processes[of.process].peer.options().name; };
  if (!chronicle_.over()) chronicle_.check("S5", checkers_.one_state.watched(call, find, name_of_peer));
  if (!chronicle_.over()) chronicle_.check("S5", checkers_.one_state.repaired(call, find, name_of_peer));
  const std::uint64_t cohorts = std::max(outcome.round.cohort, call.launch.cohort).value -
                                call.launch.cohort.value;  // number of cohorts that the call passed through
  const wire::View* const founding = checkers_.membership.founding(outcome.round.cohort);
  if (!chronicle_.over()) chronicle_.check("S10", checkers_.refusals.ended(call, founding, find));
  chronicle_.check("P1", check_bytes_sent(call, checkers_.causes.disturbances(call, founding, find) + cohorts));
  if (!chronicle_.over() && options_.guests == nullptr) chronicle_.check("P2", check_time_of(process, call));
  if (!chronicle_.over()) {
    const wire::View* const attempt = checkers_.membership.beginning(outcome.attempt);
    chronicle_.check("P4", check_choice(call, attempt, plan_.gangs.size > 1));
  }
  if (!chronicle_.over()) check_recovery(call, healed);
  if (!chronicle_.over()) check_wait(call);
  if (!chronicle_.over()) chronicle_.check("S3", check_restored(call, *process.memory));
  if (process.caller.app != nullptr && !options_.scripted) {
    const bool odd = is_odd(outcome) || is_stateless(call, founding, find);
    chronicle_.check("L2", checkers_.causes.aborted(call, founding, find, process.caller.app->leaving(), odd));
  }
}

// Element by element for the first that ends a round; the others must hold the same.
Complaint CallJudge::check_fold(const SimProcess& process, const Call& call, const FindCall& find) {
  const Memory& memory = *process.memory;
  const auto& tensors = call.request.tensors;
  const bool is_same_for_all =
      call.of_guest && call.data.given && call.outcome->status == Status::kOk &&
      call.request.collective == wire::Collective::kAllReduce &&
      std::ranges::all_of(tensors, [](const ring::Tensor& tensor) { return tensor.residual.length == 0; });
  if (!is_same_for_all) return check_exact_fold(call, memory, find);
  std::vector<std::uint64_t> results;
  results.reserve(tensors.size());
  for (const ring::Tensor& tensor : tensors) results.push_back(memory.fingerprint(tensor.recv));
  const auto known = folded_.find(call.outcome->round);
  if (known != folded_.end() && known->second == results) return {};
  Complaint complaint = check_exact_fold(call, memory, find);
  if (!complaint) folded_.emplace(call.outcome->round, std::move(results));
  return complaint;
}

// Collectives with a root or parts: what one caller has says nothing about the others. When the first is told of the
// commit, each member has its part. The root for which a result is meant has it, even if it has been lost meanwhile.
Complaint CallJudge::check_receivers(const Call& call, const FindCall& find) const {
  using wire::Collective;
  const peer::Outcome& outcome = *call.outcome;
  const Collective collective = call.request.collective;
  const bool is_shared =
      collective == Collective::kAllReduce || collective == Collective::kBarrier || collective == Collective::kSync;
  if (is_shared || outcome.status != Status::kOk || outcome.contributors == nullptr) return {};
  const bool is_for_root = collective == Collective::kReduce || collective == Collective::kGather;
  for (const PeerId peer : *outcome.contributors) {
    const Call* const theirs = peer == call.peer ? nullptr : find(peer, outcome.round);
    if (theirs == nullptr || theirs->outcome) continue;
    const bool is_receiver = is_for_root && call.request.root == peer;
    const SimProcess& process = cast_.processes[theirs->process];
    if (!is_receiver && !process.alive) continue;
    Complaint missing = check_receiver(*theirs, outcome, *process.memory, find);
    if (missing && (is_receiver || is_member(peer, call.ended))) return missing;
  }
  return {};
}

// As far as the coordinator knows.
bool CallJudge::is_member(PeerId peer, Instant now) const {
  const auto& coordinator = cast_.processes[0].coordinator;
  if (!coordinator) return false;
  return std::ranges::any_of(coordinator->snapshot(now).view.members,
                             [&](const wire::Member& member) { return member.id == peer; });
}

// An input to the round, or a wrong kernel, is a cause of this outcome.
bool CallJudge::is_odd(const peer::Outcome& outcome) const {
  const bool spoilt = checkers_.flips.explains_end(outcome.round, plan_.auto_admit);
  if (outcome.status == Status::kInternal) return spoilt;
  if (outcome.status != Status::kInvalidArgument) return false;
  if (Flips::tells_change(outcome.text) && spoilt) return true;
  const auto same_of_any_group = [&](std::optional<RoundKey> round) {  // gangs bind groups
    if (round) round->group = outcome.round.group;
    return round == outcome.round;
  };
  for (const SimProcess& process : cast_.processes) {
    for (const Call& call : process.caller.calls) {
      if ((call.data.odd || call.data.odd_weight) && same_of_any_group(Cast::round_of(process, call))) return true;
    }
  }
  return false;
}

// Members that had the state are gone, and the members of this cohort have a part of it. An earlier call has left that
// part, and was judged when it ended.
bool CallJudge::is_stateless(const Call& call, const wire::View* founding, const FindCall& find) const {
  if (call.outcome->status != Status::kStateUndefined || founding == nullptr) return false;
  const auto& lives = checkers_.causes.excuses().lives();
  const bool any_gone = std::any_of(lives.begin() + 1, lives.end(), [](const Life& life) {
    return life.view != nullptr && (life.gone() || life.leaves);
  });
  return any_gone && checkers_.one_state.nobody_brings(call, *founding, find);
}

// Where lines are known and nothing has gone wrong.
Complaint CallJudge::check_time_of(const SimProcess& process, const Call& call) {
  flow::Topology* const topology = network_.topology();
  const peer::Outcome& outcome = *call.outcome;
  if (topology == nullptr || outcome.status != Status::kOk || outcome.contributors == nullptr) return {};
  if (outcome.retries > 0 || plan_.links.bytes_per_second != 0) return {};
  RingOfHosts ring{call.made, call.made, {}};
  for (const PeerId peer : *outcome.contributors) {
    const Call* const theirs = cast_.contribution(peer, outcome.round);
    if (theirs == nullptr) return {};  // S2 says so
    ring.first_made = std::min(ring.first_made, theirs->made);
    ring.last_made = std::max(ring.last_made, theirs->made);
    ring.hosts.push_back(cast_.processes[theirs->process].host);
  }
  if (!checkers_.causes.excuses().calm_since(ring.first_made)) return {};
  TimeLimits limits(plan_, *topology, ring.hosts);
  for (auto other = process.caller.calls.rbegin(); other != process.caller.calls.rend(); ++other) {
    const bool beside = other->kind == CallKind::kCollective && (!other->outcome || other->ended >= ring.first_made);
    if (beside) limits.add(*other, &*other == &call);
  }
  return check_time(call, ring, limits);
}

void CallJudge::check_recovery(const Call& call, bool healed) {
  const peer::Outcome& outcome = *call.outcome;
  const bool recovers = checkers_.recovery.judges() && !healed;
  if ((!recovers && !checkers_.progress.judges()) || options_.guests != nullptr || options_.scripted) return;
  if (outcome.status != Status::kOk || outcome.contributors == nullptr) return;
  Instant last_made = call.made;
  for (const SimProcess& process : cast_.processes) {  // of gangs, in all groups
    RoundKey theirs_key = outcome.round;
    theirs_key.group = process.peer.options().group;
    const Call* const theirs = process.coordinator ? nullptr : cast_.contribution(process.id, theirs_key);
    if (theirs != nullptr) last_made = std::max(last_made, theirs->made);
  }
  if (recovers) chronicle_.check("P3", checkers_.recovery.ended(call, last_made));
  if (!chronicle_.over() && checkers_.progress.judges())
    chronicle_.check("L5", checkers_.progress.ended(call, last_made));
}

void CallJudge::check_wait(const Call& call) {
  if (!checkers_.waits.judges() || options_.guests != nullptr || options_.scripted || call.view == nullptr) return;
  Instant last = call.made;
  for (const wire::Member& member : call.view->members) {
    const Call* const theirs = cast_.contribution(member.id, call.outcome->round);
    last = std::max(last, theirs == nullptr ? call.ended : std::min(theirs->made, call.ended));
  }
  Instant before = call.made;
  for (const wire::Member& member : call.view->members) {
    const Call* const theirs = cast_.contribution(member.id, call.outcome->round);
    if (theirs != nullptr && theirs->made < last) before = std::max(before, theirs->made);
  }
  chronicle_.check("L6", checkers_.waits.ended(call, last, before));
}

// Programs from outside may abort calls, and scripts set time-outs, that no call here tells of. A sync is also aborted
// when nobody is left to take the state from, which L2 judges; and a connect or a prefetch by its caller's leave.
Complaint CallJudge::check_time_out_of(const Call& call) const {
  const peer::Outcome& outcome = *call.outcome;
  const bool aborted = outcome.status == Status::kAborted;
  if (!aborted && outcome.status != Status::kTimedOut) return {};
  if (call.of_guest || options_.guests != nullptr || options_.scripted) return {};
  if (aborted && call.request.state != nullptr && outcome.text.find("aborted by ") == std::string::npos) return {};
  if (aborted && outcome.text == "left before being admitted") return {};
  std::vector<Counterpart> others;
  for (const SimProcess& process : cast_.processes) {
    if (process.coordinator || process.id == call.peer) continue;
    for (const Call& theirs : process.caller.calls) {
      if (!may_end(theirs, call)) continue;
      std::optional<RoundKey> round = Cast::round_of(process, theirs);
      if (round && *round != RoundKey{} && outcome.round != RoundKey{}) {
        round->group = outcome.round.group;  // gangs bind groups
        if (*round != outcome.round) continue;
      }
      others.push_back({process.peer.options().name, &theirs});
    }
  }
  return check_cause_of_end(call, others);
}

bool CallJudge::is_among_liars(const Call& call) const {
  if (!checkers_.liars.any()) return false;
  if (checkers_.liars.include(call.peer) || checkers_.liars.include(call.transfer.peer)) return true;
  if (call.view != nullptr && checkers_.liars.are_in(*call.view)) return true;
  const wire::View* const founding = checkers_.membership.founding(call.outcome->round.cohort);
  return founding != nullptr && checkers_.liars.are_in(*founding);
}

bool CallJudge::is_untold(const Call& call) const {
  if (!is_among_liars(call)) return false;
  const peer::Outcome& now = *call.outcome;
  for (const SimProcess& process : cast_.processes) {
    if (process.coordinator || !process.alive || process.over || checkers_.liars.include(process.id)) continue;
    const Call* const theirs = cast_.contribution(process.id, now.round);
    if (theirs == nullptr || !theirs->outcome || is_out(theirs->outcome->status)) continue;
    const peer::Outcome& then = *theirs->outcome;
    if ((then.status == Status::kOk) != (now.status == Status::kOk) || then.attempt != now.attempt) return false;
  }
  return true;
}

// Only newcomers that do not answer can have delayed the admission, and the rounds that were called before it. Members
// call admit at most once before the admission ends.
Complaint CallJudge::check_admission(const Call& call) {
  if (!checkers_.admissions.judges() || options_.guests != nullptr || call.outcome->status != Status::kOk) return {};
  const auto has_admitted = [](const Call& earlier) {
    return earlier.kind == CallKind::kAdmit && earlier.outcome && earlier.outcome->status == Status::kOk;
  };
  Instant ready = call.made;
  for (const SimProcess& process : cast_.processes) {
    if (process.coordinator || process.over || !process.alive) continue;
    const auto admit = std::find_if(process.caller.calls.rbegin(), process.caller.calls.rend(), [&](const Call& other) {
      return other.kind == CallKind::kAdmit && (!other.outcome || other.outcome->view == call.outcome->view);
    });
    if (admit == process.caller.calls.rend()) continue;
    if (admit->at_least > 1) return {};
    ready = std::max(ready, admit->made);
    for (auto round = std::next(admit); round != process.caller.calls.rend() && !has_admitted(*round); ++round) {
      if (round->kind == CallKind::kCollective && round->outcome) ready = std::max(ready, round->ended);
    }
  }
  return checkers_.admissions.ended(call, ready);
}

}  // namespace lockstep::sim
