// S1, one outcome: all who report a collective report the same outcome (committed or aborted) and the same receipt. Only
// `outcome unknown` is outside. The first who reports a round writes the ledger. Groups that share a gang have one outcome, and
// so have groups that are bound through others.
#pragma once

#include <map>

#include "sim/call.h"
#include "sim/checkers/complaint.h"

namespace lockstep::sim {

class OneOutcome {
 public:
  // `cohort`: the view that the call's cohort began with, if anybody has installed it.
  Complaint ended(const Call& call, const wire::View* cohort = nullptr);
  [[nodiscard]] std::size_t rounds() const { return ledger_.size(); }

 private:
  struct Entry {
    PeerId first;
    peer::Outcome outcome;
  };
  Complaint bound(const Call& call, const wire::View& cohort);

  std::map<RoundKey, Entry> ledger_;
  std::map<RoundKey, Entry> bound_;  // by key, with the first of the groups that are bound
};

}  // namespace lockstep::sim
