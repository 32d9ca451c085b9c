// S1, one outcome: all who report a collective report the same outcome (committed or aborted) and the same receipt. Only
// `outcome unknown` is outside. The first who reports a round writes the ledger. With gangs, one outcome in all groups.
#pragma once

#include <map>

#include "sim/call.h"
#include "sim/checkers/complaint.h"

namespace lockstep::sim {

class OneOutcome {
 public:
  // `gangs`: the same use of a tag has one outcome in all groups.
  explicit OneOutcome(bool gangs = false) : gangs_(gangs) {}
  Complaint ended(const Call& call);
  [[nodiscard]] std::size_t rounds() const { return ledger_.size(); }

 private:
  struct Entry {
    PeerId first;
    peer::Outcome outcome;
  };
  Complaint bound(const Call& call);

  bool gangs_;
  std::map<RoundKey, Entry> ledger_;
  std::map<RoundKey, Entry> bound_;  // by key, whatever the group
};

}  // namespace lockstep::sim
