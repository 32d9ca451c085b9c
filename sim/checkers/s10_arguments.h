// The second half of S10: the agreed arguments are kept. A round never runs below its minimum world, a call that
// forbids retries is not retried, and admit waits for the requested world.
#pragma once

#include "sim/checkers/complaint.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

// `members`: number of members in the caller's newest installed view.
inline Complaint check_arguments_kept(const Call& call, std::size_t members) {
  const peer::Outcome& outcome = *call.outcome;
  if (call.kind == CallKind::kAdmit && outcome.status == Status::kOk && members < call.at_least) {
    return text_of(call.peer) + " called admit for at least " + std::to_string(call.at_least) +
           " members, and it succeeds with " + std::to_string(members);
  }
  if (call.kind != CallKind::kCollective) return {};
  const ring::Request& request = call.request;
  if (outcome.status == Status::kOk && outcome.world < request.minimum_world) {
    return text_of(outcome.round) + " is committed among " + std::to_string(outcome.world) + ", and " +
           text_of(call.peer) + " wants at least " + std::to_string(request.minimum_world);
  }
  const bool may_retry = request.retry && (request.collective == wire::Collective::kAllReduce ||
                                           request.collective == wire::Collective::kBarrier ||
                                           request.collective == wire::Collective::kSync);
  if (!may_retry && outcome.retries > 0) {
    return text_of(outcome.round) + " of " + text_of(call.peer) + ": " + text_of(request) + " was retried " +
           std::to_string(outcome.retries) + " times, and must not be";
  }
  return {};
}

}  // namespace lockstep::sim
