// Which groups decide together. A gang has members in several groups, and its shards are of use only together: the
// groups that it has members in are bound, and so are groups that are bound through others. Groups that share no gang
// decide alone.
#pragma once

#include <vector>

#include "core/base/ids.h"
#include "core/wire/message.h"

namespace lockstep::wire {

// All groups of these members: one list for those that are bound with each other, each in ascending order.
std::vector<std::vector<GroupId>> bound_groups(const std::vector<Member>& members);

}  // namespace lockstep::wire
