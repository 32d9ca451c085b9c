// S1, one outcome: all peers that report a collective report the same outcome (committed or aborted) and the same
// receipt, except peers that report `outcome unknown`; a round may commit without a peer that reports `mismatch`. The
// first report of a round writes the ledger. Groups that share
// a gang have one outcome, and so have groups that are connected through other groups.
#pragma once

#include <map>
#include <set>

#include "sim/checkers/complaint.h"
#include "sim/workload/call.h"

namespace lockstep::sim {

class OneOutcome {
 public:
  // `cohort`: the first view of the call's cohort, if a peer has installed it.
  Complaint ended(const Call& call, const wire::View* cohort = nullptr);
  [[nodiscard]] std::size_t rounds() const { return ledger_.size(); }

 private:
  struct Entry {
    PeerId first;
    peer::Outcome outcome;
  };
  Complaint bound(const Call& call, const wire::View& cohort);

  std::map<RoundKey, Entry> ledger_;
  std::map<RoundKey, std::set<PeerId>> mismatched_;  // peers whose call ended with a mismatch
  std::map<RoundKey, Entry> bound_;                  // by key, with the first of the connected groups
};

}  // namespace lockstep::sim
