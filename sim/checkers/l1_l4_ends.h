// L1: once faults stop, every submitted collective ends within a stated bound. L3: a joiner is in within a stated
// bound. L4: no call hangs. Judged in the liveness phase.
#pragma once

#include <algorithm>

#include "sim/checkers/complaint.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

// The promise that a call breaks if the call does not end.
inline const char* promise_of(CallKind kind) {
  switch (kind) {
    case CallKind::kConnect: return "L3";
    case CallKind::kCollective:
    case CallKind::kSend:
    case CallKind::kReceive: return "L1";
    case CallKind::kAdmit: return "L3";
    case CallKind::kLeave:
    case CallKind::kPublish:
    case CallKind::kPrefetch: return "L4";
  }
  return "L4";
}

inline Complaint check_ends(const Call& call, Instant healed, Instant now, Duration bound) {
  if (call.outcome || call.told_to_wait) return {};
  const Instant since = std::max(call.made, healed);
  if (now - since <= bound) return {};
  return text_of(call.peer) + " waits for its " + text_of(call) + ", made at " + text_of(call.made) + ", for " +
         std::to_string((now - since).ns / 1'000'000) + " ms since all is well";
}

}  // namespace lockstep::sim
