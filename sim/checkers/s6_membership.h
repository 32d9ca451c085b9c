// S6, one membership per view: whoever installs a view of one number installs the same; views are ordered; no peer is in one
// twice; a ring is one cycle over exactly its group (members are sorted by group, a rank is a place among its own).
#pragma once

#include <map>
#include <memory>

#include "sim/checkers/complaint.h"
#include "sim/text.h"

namespace lockstep::sim {

class Membership {
 public:
  Complaint installed(PeerId by, const std::shared_ptr<const wire::View>& view);
  [[nodiscard]] std::size_t views() const { return views_.size(); }

 private:
  using Key = std::pair<Term, ViewNumber>;
  std::map<Key, std::shared_ptr<const wire::View>> views_;
  std::map<PeerId, Key> newest_;
};

}  // namespace lockstep::sim
