// S10, its other half: the arguments that all agreed on are kept. A round never goes on below its minimum world, what must not
// be retried is not, and admit waits for the world that was asked for.
#pragma once

#include "sim/call.h"
#include "sim/checkers/complaint.h"
#include "sim/text.h"

namespace lockstep::sim {

// `members`: of the view that the caller has installed last.
inline Complaint check_arguments_kept(const Call& call, std::size_t members) {
  const peer::Outcome& outcome = *call.outcome;
  if (call.kind == CallKind::kAdmit && outcome.status == Status::kOk && members < call.at_least) {
    return text_of(call.peer) + " called admit for at least " + std::to_string(call.at_least) +
           " members, and it succeeds with " + std::to_string(members);
  }
  if (call.kind != CallKind::kCollective) return {};
  const peer::Request& request = call.request;
  if (outcome.status == Status::kOk && outcome.world < request.minimum_world) {
    return text_of(outcome.round) + " is committed among " + std::to_string(outcome.world) + ", and " +
           text_of(call.peer) + " wants at least " + std::to_string(request.minimum_world);
  }
  const bool may_retry = request.retry && (request.collective == peer::Collective::kAllReduce ||
                                           request.collective == peer::Collective::kBarrier ||
                                           request.collective == peer::Collective::kSync);
  if (!may_retry && outcome.retries > 0) {
    return text_of(outcome.round) + " of " + text_of(call.peer) + ": " + text_of(request) + " was retried " +
           std::to_string(outcome.retries) + " times, and must not be";
  }
  return {};
}

}  // namespace lockstep::sim
