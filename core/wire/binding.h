// The groups that share one outcome. A gang has members in several groups, and the shards of its members are useful
// only together. So the groups of a gang are bound to each other, directly or through other groups. Groups that share
// no gang decide independently.
#pragma once

#include <vector>

#include "core/base/ids.h"
#include "core/wire/message.h"

namespace lockstep::wire {

// All groups of these members: one list for each set of bound groups, in ascending order.
std::vector<std::vector<GroupId>> bound_groups(const std::vector<Member>& members);

}  // namespace lockstep::wire
