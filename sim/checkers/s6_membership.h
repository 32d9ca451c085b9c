// S6, one membership per view: all peers that install a view of one number install the same view; views are ordered; a
// view lists a peer once; a ring is one cycle over exactly its group (members are sorted by group, and a rank is a
// position in the group); a view holds a gang completely or not at all. A committed result was reduced along that ring:
// by the members of the cohort that are in the view, in the view's order.
#pragma once

#include <map>
#include <memory>

#include "sim/checkers/complaint.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

class OneMembership {
 public:
  // `gang_size`: 0: not known.
  explicit OneMembership(std::uint32_t gang_size = 1) : gang_size_(gang_size) {}
  Complaint installed(PeerId by, const std::shared_ptr<const wire::View>& view);
  [[nodiscard]] Complaint ended(const Call& call) const;
  [[nodiscard]] std::size_t views() const { return views_.size(); }
  // The first view of a cohort; nothing if nobody has installed it.
  [[nodiscard]] const wire::View* founding(CohortId cohort) const { return find(cohort.value); }
  // The view in which a generation began.
  [[nodiscard]] const wire::View* beginning(Generation generation) const { return find(generation.value); }

 private:
  using Key = std::pair<Term, ViewNumber>;
  [[nodiscard]] const wire::View* find(std::uint64_t number) const;
  std::uint32_t gang_size_;
  std::map<Key, std::shared_ptr<const wire::View>> views_;
  std::map<PeerId, Key> newest_;
};

}  // namespace lockstep::sim
