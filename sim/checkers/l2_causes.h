// L2: no abort and no eviction without a cause; a healthy peer is never evicted. A cause is a fault of the plan that has
// begun, or what an application did: on this host, on the coordinator's, or on one of the same gang. Every status has causes of
// its own; and nothing is the cause of a breach of the protocol, since nobody here speaks anything else, but for pieces of state
// that a host falsifies.
#pragma once

#include <vector>

#include "core/trace/event.h"
#include "sim/call.h"
#include "sim/checkers/complaint.h"
#include "sim/plan.h"
#include "sim/text.h"

namespace lockstep::sim {

class Causes {
 public:
  // `founders`: with how many the run begins; a call that wants more has a cause to be refused.
  explicit Causes(std::uint32_t founders = Network::kMaxHosts) : founders_(founders) {}

  void began(const Entry& entry) { begun_.push_back(entry); }
  [[nodiscard]] std::size_t begun() const { return begun_.size(); }
  // With auto_admit, somebody calls admit for more members than there are: calls are refused until they have come.
  void waits_for_more() { waits_for_more_ = true; }
  // In a sync, somebody only sends, or only receives: two may insist on what they have, or nobody may send.
  void some_do_not_vote() { some_do_not_vote_ = true; }

  // `hosts`: where it, and the others of its gang, run.
  [[nodiscard]] Complaint lost(PeerId peer, const std::vector<std::uint32_t>& hosts, Status status,
                               const std::string& text) const;
  // `leaving`: the caller is, and may not learn what becomes of a round that others go on with.
  // `odd`: a kernel was wrong in the round, or somebody gave it what cannot be reduced.
  [[nodiscard]] Complaint aborted(const Call& call, bool leaving, bool odd = false) const;
  // Nothing else has begun: no other fault, and no call that waits for more.
  [[nodiscard]] bool only_bits_flip() const;
  // What a machine notes by itself. `who`: nobody is the coordinator.
  [[nodiscard]] Complaint noted(PeerId who, const trace::Event& event) const;

 private:
  [[nodiscard]] bool has_begun(Fault fault) const;
  [[nodiscard]] bool excuse(const Call& call, bool leaving) const;
  std::uint32_t founders_;
  std::vector<Entry> begun_;
  bool waits_for_more_ = false;
  bool some_do_not_vote_ = false;
};

}  // namespace lockstep::sim
