// L2: no abort and no eviction without a cause; a healthy peer is never evicted. A cause is a fault of the plan that has
// begun, or what an application did: on this host, on the coordinator's, or on one of the same gang.
#pragma once

#include <vector>

#include "sim/call.h"
#include "sim/checkers/complaint.h"
#include "sim/plan.h"
#include "sim/text.h"

namespace lockstep::sim {

class Causes {
 public:
  void began(const Entry& entry) { begun_.push_back(entry); }

  // `hosts`: where it, and the others of its gang, run.
  [[nodiscard]] Complaint lost(PeerId peer, const std::vector<std::uint32_t>& hosts, const std::string& text) const;
  [[nodiscard]] Complaint aborted(const Call& call) const;

 private:
  std::vector<Entry> begun_;
};

}  // namespace lockstep::sim
