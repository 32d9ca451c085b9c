#include "core/coordinator/state_fingerprints.h"

#include <algorithm>

#include "core/base/mutant.h"
#include "core/coordinator/names.h"

namespace lockstep::coordinator {

std::optional<StateFingerprints::Difference> StateFingerprints::difference(
    const std::vector<wire::Member>& members) const {
  const auto differs = [&](const auto& entry) { return entry.second != by_peer_.begin()->second; };
  if (std::none_of(by_peer_.begin(), by_peer_.end(), differs) || mutant(Mutant::kWatchBlind)) return std::nullopt;
  std::map<std::uint64_t, std::size_t> votes;
  for (const auto& [peer, fingerprint] : by_peer_) ++votes[fingerprint];
  Difference difference;
  difference.watch = by_peer_.size();
  std::uint64_t popular = 0;
  for (const wire::Member& member : members) {
    const auto own = by_peer_.find(member.id);
    if (own == by_peer_.end() || votes[own->second] <= difference.same) continue;
    popular = own->second;
    difference.popular = member.id;
    difference.same = votes[popular];
  }
  const auto other = std::find_if(members.begin(), members.end(), [&](const wire::Member& member) {
    const auto own = by_peer_.find(member.id);
    return own != by_peer_.end() && own->second != popular;
  });
  if (other == members.end()) return std::nullopt;
  difference.other = other->id;
  return difference;
}

std::string describe(const StateFingerprints::Difference& difference, const std::vector<wire::Member>& members,
                     Tag tag) {
  return "the state of " + name_in(members, difference.other) + " differs from that of " +
         name_in(members, difference.popular) + " (" + std::to_string(difference.same) + " of " +
         std::to_string(difference.watch) + " watch the same) in tag " + std::to_string(tag.value);
}

}  // namespace lockstep::coordinator
