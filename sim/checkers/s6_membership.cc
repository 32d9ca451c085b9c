#include "sim/checkers/s6_membership.h"

#include <algorithm>

namespace lockstep::sim {

Complaint OneMembership::installed(PeerId by, const std::shared_ptr<const wire::View>& view) {
  const Key key{view->term, view->number};
  const auto newest = newest_.find(by);
  if (newest != newest_.end() && key <= newest->second) {
    return text_of(by) + " installs " + text_of(*view) + " after view " + std::to_string(newest->second.second.value);
  }
  newest_[by] = key;
  const auto& members = view->members;
  for (std::size_t i = 1; i < members.size(); ++i) {
    if (members[i].group < members[i - 1].group) return text_of(*view) + " is not sorted by group";
  }
  std::map<GangId, std::uint32_t> gangs;
  for (const wire::Member& member : members) {
    if (member.gang.value != 0) gangs[member.gang] += 1;
  }
  for (const auto& [gang, size] : gangs) {
    if (size == gang_size_ || gang_size_ == 0) continue;
    return text_of(*view) + " has " + std::to_string(size) + " of the " + std::to_string(gang_size_) + " of gang " +
           std::to_string(gang.value);
  }
  bool among = false;
  for (std::size_t i = 0; i < members.size(); ++i) {
    among = among || members[i].id == by;
    for (std::size_t k = 0; k < i; ++k) {
      if (members[i].id == members[k].id) return text_of(*view) + " has " + text_of(members[i].id) + " twice";
    }
  }
  if (!among) return text_of(by) + " installs " + text_of(*view) + ", which it is not a member of";
  if (view->cohort.value > view->number.value) return text_of(*view) + " has a cohort of the future";
  const auto [it, first] = views_.try_emplace(key, view);
  if (!first && !(*it->second == *view)) {
    return "two views of one number: " + text_of(*it->second) + " and " + text_of(*view) + " on " + text_of(by);
  }
  return {};
}

const wire::View* OneMembership::find(std::uint64_t number) const {
  const auto at =
      std::find_if(views_.begin(), views_.end(), [&](const auto& entry) { return entry.first.second.value == number; });
  return at == views_.end() ? nullptr : at->second.get();
}

Complaint OneMembership::ended(const Call& call) const {
  const peer::Outcome& outcome = *call.outcome;
  if (call.kind != CallKind::kCollective || outcome.status != Status::kOk || outcome.contributors == nullptr) return {};
  const wire::View* view = find(outcome.attempt.value);
  const wire::View* cohort = find(outcome.round.cohort.value);
  if (view == nullptr || cohort == nullptr) {
    return text_of(outcome.round) + " is committed for " + text_of(call.peer) + " in a view that no peer has installed";
  }
  std::vector<PeerId> ring;
  for (const wire::Member& member : view->members) {
    const bool admitted = std::any_of(cohort->members.begin(), cohort->members.end(),
                                      [&](const wire::Member& other) { return other.id == member.id; });
    if (member.group == outcome.round.group && admitted) ring.push_back(member.id);
  }
  if (ring == *outcome.contributors) return {};
  return text_of(outcome.round) + " is committed for " + text_of(call.peer) + " by the ring " +
         text_of(*outcome.contributors) + ", and in " + text_of(*view) + " that is " + text_of(ring);
}

}  // namespace lockstep::sim
