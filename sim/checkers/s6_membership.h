// S6, one membership per view: whoever installs a view of one number installs the same; views are ordered; no peer is in one
// twice; a ring is one cycle over exactly its group (members are sorted by group, a rank is a place among its own); a gang is
// in whole or not at all. What is committed was reduced along that ring: by the members of the cohort that are in the view,
// in its order.
#pragma once

#include <map>
#include <memory>

#include "sim/call.h"
#include "sim/checkers/complaint.h"
#include "sim/text.h"

namespace lockstep::sim {

class Membership {
 public:
  // `gang_size`: 0: not known.
  explicit Membership(std::uint32_t gang_size = 1) : gang_size_(gang_size) {}
  Complaint installed(PeerId by, const std::shared_ptr<const wire::View>& view);
  [[nodiscard]] Complaint ended(const Call& call) const;
  [[nodiscard]] std::size_t views() const { return views_.size(); }
  // The view that a cohort began with; nothing when nobody has installed it.
  [[nodiscard]] const wire::View* founding(CohortId cohort) const { return find(cohort.value); }

 private:
  using Key = std::pair<Term, ViewNumber>;
  [[nodiscard]] const wire::View* find(std::uint64_t number) const;
  std::uint32_t gang_size_;
  std::map<Key, std::shared_ptr<const wire::View>> views_;
  std::map<PeerId, Key> newest_;
};

}  // namespace lockstep::sim
