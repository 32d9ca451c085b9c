// S3, restored: after an abort every input, and what is added to it, holds the bits it had at the call.
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
    const peer::Tensor& tensor = call.request.tensors[t];
    const bool kept = memory.fingerprint(input_of(call.request, tensor)) == call.inputs[t];
    if (kept && (tensor.residual.length == 0 || memory.fingerprint(tensor.residual) == call.residuals[t])) continue;
    return text_of(call.outcome->round) + " ended for " + text_of(call.peer) + " with " + text_of(*call.outcome) +
           ", and the " + (kept ? "residual" : "input") + " of tensor " + std::to_string(t) + " of its " +
           text_of(call.request) + " is not what it was";
  }
  return {};
}

}  // namespace lockstep::sim
