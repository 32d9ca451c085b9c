#include "core/wire/binding.h"

#include <map>
#include <utility>

namespace lockstep::wire {

std::vector<std::vector<GroupId>> bound_groups(const std::vector<Member>& members) {
  std::map<GroupId, GroupId> parent;  // a forest; the root of each tree is its smallest group
  const auto root_of = [&](GroupId group) {
    while (parent.at(group) != group) group = parent.at(group) = parent.at(parent.at(group));
    return group;
  };
  std::map<GangId, GroupId> home;  // the first group found with a member of the gang
  for (const Member& member : members) {
    parent.try_emplace(member.group, member.group);
    if (member.gang.value == 0) continue;
    GroupId a = root_of(home.try_emplace(member.gang, member.group).first->second);
    GroupId b = root_of(member.group);
    if (b < a) std::swap(a, b);
    parent.at(b) = a;
  }
  std::map<GroupId, std::vector<GroupId>> trees;
  for (const auto& entry : parent) trees[root_of(entry.first)].push_back(entry.first);
  std::vector<std::vector<GroupId>> bound;
  bound.reserve(trees.size());
  for (auto& [root, groups] : trees) bound.push_back(std::move(groups));
  return bound;
}

}  // namespace lockstep::wire
