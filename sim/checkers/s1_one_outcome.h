// S1, one outcome: all who report a collective report the same outcome (committed or aborted) and the same receipt. Only
// `outcome unknown` is outside. The first who reports a round writes the ledger.
#pragma once

#include <map>

#include "sim/call.h"
#include "sim/checkers/complaint.h"

namespace lockstep::sim {

class OneOutcome {
 public:
  Complaint ended(const Call& call);
  [[nodiscard]] std::size_t rounds() const { return ledger_.size(); }

 private:
  struct Entry {
    PeerId first;
    peer::Outcome outcome;
  };
  std::map<RoundKey, Entry> ledger_;
};

}  // namespace lockstep::sim
