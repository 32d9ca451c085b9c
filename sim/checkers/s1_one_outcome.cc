#include "sim/checkers/s1_one_outcome.h"

#include <algorithm>
#include <set>

#include "core/trace/event.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

namespace {

// The first of the groups that gangs connect with this group.
GroupId first_bound(const wire::View& cohort, GroupId group) {
  std::set<GroupId> groups{group};
  std::set<GangId> gangs;
  for (bool grows = true; grows;) {
    grows = false;
    for (const wire::Member& member : cohort.members) {
      if (member.gang.value == 0) continue;
      if (groups.contains(member.group)) grows = gangs.insert(member.gang).second || grows;
      if (gangs.contains(member.gang)) grows = groups.insert(member.group).second || grows;
    }
  }
  return *groups.begin();
}

}  // namespace

Complaint OneOutcome::ended(const Call& call, const wire::View* cohort) {
  if (call.kind != CallKind::kCollective) return {};
  const peer::Outcome& now = *call.outcome;
  if (now.round == RoundKey{}) return {};  // never became part of a round
  if (is_out(now.status)) return {};
  if (call.refused) return {};  // it ends before the verdict; S10 judges that no contributor has refused
  if (now.status == Status::kOk && (now.contributors == nullptr || now.contributors->empty())) {
    return text_of(now.round) + " is committed for " + text_of(call.peer) + " without naming contributors";
  }
  const auto contributes = [&](const peer::Outcome& outcome, PeerId peer) {
    return outcome.status == Status::kOk &&
           std::ranges::find(*outcome.contributors, peer) != outcome.contributors->end();
  };
  const auto mismatch_of = [&](PeerId peer) {
    return text_of(now.round) + " has no place for " + text_of(peer) + ", and committed with its contribution";
  };
  if (ends_alone(now.status)) {  // a newcomer; the round may commit without it (rules 52, 53)
    mismatched_[now.round].insert(call.peer);
    const auto known = ledger_.find(now.round);
    return known != ledger_.end() && contributes(known->second.outcome, call.peer) ? mismatch_of(call.peer)
                                                                                   : Complaint{};
  }
  if (const auto alone = mismatched_.find(now.round); alone != mismatched_.end()) {
    for (const PeerId peer : alone->second) {
      if (contributes(now, peer)) return mismatch_of(peer);
    }
  }
  const auto [it, first] = ledger_.try_emplace(now.round, Entry{call.peer, now});
  if (first) return cohort != nullptr ? bound(call, *cohort) : Complaint{};
  const peer::Outcome& then = it->second.outcome;
  const PeerId teller = it->second.first;
  const auto differ = [&](const std::string& what, const std::string& a, const std::string& b) {
    return text_of(now.round) + ": " + what + " is " + a + " for " + text_of(teller) + ", " + b + " for " +
           text_of(call.peer);
  };
  const bool committed = then.status == Status::kOk;
  if (committed != (now.status == Status::kOk)) {
    return differ("the outcome", text_of(then), text_of(now));
  }
  if (!committed) return {};
  if (then.attempt != now.attempt) {
    return differ("the attempt", std::to_string(then.attempt.value), std::to_string(now.attempt.value));
  }
  if (*then.contributors != *now.contributors) {
    return differ("the list of contributors", text_of(*then.contributors), text_of(*now.contributors));
  }
  if (then.world != now.world) return differ("the world", std::to_string(then.world), std::to_string(now.world));
  if (then.way.algorithm != now.way.algorithm) {
    return differ("the algorithm", std::string(name_of(then.way.algorithm)), std::string(name_of(now.way.algorithm)));
  }
  if (then.way.rates != now.way.rates) {
    const auto text = [](const std::vector<std::uint32_t>& rates) {
      std::string all;
      for (const std::uint32_t rate : rates) all += (all.empty() ? "" : " ") + std::to_string(rate);
      return all;
    };
    return differ("the rates of the ranks", text(then.way.rates), text(now.way.rates));
  }
  if (then.hash != now.hash) return differ("the hash", std::to_string(then.hash), std::to_string(now.hash));
  return {};
}

Complaint OneOutcome::bound(const Call& call, const wire::View& cohort) {
  RoundKey key = call.outcome->round;
  key.group = first_bound(cohort, key.group);
  const auto [it, first] = bound_.try_emplace(key, Entry{call.peer, *call.outcome});
  if (first) return {};
  const peer::Outcome& then = it->second.outcome;
  const peer::Outcome& now = *call.outcome;
  const bool ok = then.status == Status::kOk;
  if (ok == (now.status == Status::kOk) && (!ok || then.revision == now.revision)) return {};
  const auto say = [&](const peer::Outcome& outcome) {
    return text_of(outcome) + (outcome.revision != 0 ? " of revision " + std::to_string(outcome.revision) : "");
  };
  return text_of(then.round) + " is " + say(then) + " for " + text_of(it->second.first) + ", and " +
         text_of(now.round) + ", which is bound to it, " + say(now) + " for " + text_of(call.peer);
}

}  // namespace lockstep::sim
