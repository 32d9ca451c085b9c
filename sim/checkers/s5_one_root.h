// S5, as far as journals tell of it, which know digests and no bytes. Whoever ends a sync with success has the same
// root, revision and lineage; somebody came with that revision who may send; and it is that of who only sends.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sim/checkers/complaint.h"
#include "sim/checkers/s2_exact_fold.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

class OneRoot {
 public:
  Complaint ended(const Call& call, const FindCall& find) {
    const peer::Outcome& now = *call.outcome;
    if (call.request.state == nullptr || now.status != Status::kOk || now.contributors == nullptr) return {};
    const auto [at, first] = ends_.try_emplace(now.round, Entry{call.peer, now.revision, now.root, now.lineage});
    const Entry& then = at->second;
    if (then.revision != now.revision || then.root != now.root || then.lineage != now.lineage) {
      return text_of(now.round) + " ended with revision " + std::to_string(then.revision) + " for " +
             text_of(then.first) + ", and with " + std::to_string(now.revision) + " for " + text_of(call.peer) +
             (then.revision != now.revision ? ""
              : then.root != now.root       ? ", of another root"
                                            : ", of another lineage");
    }
    bool came = now.retries > 0;  // a peer that is gone may have brought the root
    for (const PeerId& peer : *now.contributors) {
      const Call* claimed = find(peer, now.round);
      if (claimed == nullptr || claimed->request.state == nullptr) return {};  // its journal is not here
      const state::Statement& brought = *claimed->request.state;
      if (brought.strategy == state::Strategy::kSendOnly && brought.revision != now.revision) {
        return text_of(now.round) + " ended with revision " + std::to_string(now.revision) + ", and " + text_of(peer) +
               ", who only sends, came with " + std::to_string(brought.revision);
      }
      came = came || (brought.strategy != state::Strategy::kReceiveOnly && brought.revision == now.revision);
    }
    if (came) return {};
    return text_of(now.round) + " ended with revision " + std::to_string(now.revision) +
           ", which none of the contributors came with who may send";
  }

 private:
  struct Entry {
    PeerId first;
    std::uint64_t revision = 0;
    Digest root;
    Lineage lineage;
  };
  std::map<RoundKey, Entry> ends_;
};

}  // namespace lockstep::sim
