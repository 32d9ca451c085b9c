#include "sim/checkers/s6_membership.h"

#include <algorithm>

namespace lockstep::sim {

Complaint Membership::installed(PeerId by, const std::shared_ptr<const wire::View>& view) {
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

}  // namespace lockstep::sim
