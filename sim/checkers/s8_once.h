// S8: every accepted call completes exactly once.
#pragma once

#include "sim/checkers/complaint.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

// `call`: the call that the completion names; null: the process has no such call.
inline Complaint check_once(const Call* call, PeerId peer, CallId id, const peer::Outcome& outcome) {
  if (call == nullptr) return text_of(peer) + " completes call " + std::to_string(id.value) + ", which was never made";
  if (call->outcome) {
    return text_of(peer) + " completes call " + std::to_string(id.value) + " again: first " + text_of(*call->outcome) +
           ", now " + text_of(outcome);
  }
  return {};
}

}  // namespace lockstep::sim
