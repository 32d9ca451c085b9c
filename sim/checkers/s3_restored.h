// S3, restored: after an abort every input holds the bits it had at the call.
#pragma once

#include "sim/call.h"
#include "sim/checkers/complaint.h"
#include "sim/memory.h"
#include "sim/text.h"

namespace lockstep::sim {

inline Complaint check_restored(const Call& call, const Memory& memory) {
  if (call.kind != CallKind::kCollective || call.outcome->status == Status::kOk) return {};
  if (call.request.collective == peer::Collective::kSync) return {};  // S5 says what it holds
  for (std::size_t t = 0; t < call.inputs.size(); ++t) {
    if (call.request.collective == peer::Collective::kBroadcast && call.request.root != call.peer) continue;
    if (memory.fingerprint(input_of(call.request, call.request.tensors[t])) == call.inputs[t]) continue;
    return text_of(call.outcome->round) + " ended for " + text_of(call.peer) + " with " + text_of(*call.outcome) +
           ", and the input of tensor " + std::to_string(t) + " of its " + text_of(call.request) +
           " is not what it was";
  }
  return {};
}

}  // namespace lockstep::sim
