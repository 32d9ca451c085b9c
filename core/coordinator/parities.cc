#include "core/coordinator/parities.h"

#include <algorithm>

#include "core/base/mutant.h"
#include "core/coordinator/names.h"

namespace lockstep::coordinator {

std::optional<Parities::Difference> Parities::difference(const std::vector<wire::Member>& members) const {
  const auto differs = [&](const auto& entry) { return entry.second != said_.begin()->second; };
  if (std::none_of(said_.begin(), said_.end(), differs) || mutant(Mutant::kWatchBlind)) return std::nullopt;
  std::map<std::uint64_t, std::size_t> votes;
  for (const auto& [peer, parity] : said_) ++votes[parity];
  Difference difference;
  difference.watch = said_.size();
  std::uint64_t popular = 0;
  for (const wire::Member& member : members) {
    const auto said = said_.find(member.id);
    if (said == said_.end() || votes[said->second] <= difference.same) continue;
    popular = said->second;
    difference.popular = member.id;
    difference.same = votes[popular];
  }
  const auto other = std::find_if(members.begin(), members.end(), [&](const wire::Member& member) {
    const auto said = said_.find(member.id);
    return said != said_.end() && said->second != popular;
  });
  if (other == members.end()) return std::nullopt;
  difference.other = other->id;
  return difference;
}

std::string describe(const Parities::Difference& difference, const std::vector<wire::Member>& members, Tag tag) {
  return "the state of " + name_in(members, difference.other) + " differs from that of " +
         name_in(members, difference.popular) + " (" + std::to_string(difference.same) + " of " +
         std::to_string(difference.watch) + " watch the same) in tag " + std::to_string(tag.value);
}

}  // namespace lockstep::coordinator
