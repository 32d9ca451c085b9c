// S3, restored: after an abort every input and every residual holds the bits that it had at the call, unless the
// program has written to it.
#pragma once

#include "sim/checkers/complaint.h"
#include "sim/engine/memory.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

inline Complaint check_restored(const Call& call, const Memory& memory) {
  if (call.kind != CallKind::kCollective || call.outcome->status == Status::kOk) return {};
  if (call.request.collective == wire::Collective::kSync) return {};  // S5 says what it holds
  if (call.data.rewritten) return {};
  for (std::size_t t = 0; t < call.prints.inputs.size(); ++t) {
    if (call.request.collective == wire::Collective::kBroadcast && call.request.root != call.peer) continue;
    const ring::Tensor& tensor = call.request.tensors[t];
    const bool kept = memory.fingerprint(input_of(call.request, tensor)) == call.prints.inputs[t];
    if (kept && (tensor.residual.length == 0 || memory.fingerprint(tensor.residual) == call.prints.residuals[t]))
      continue;
    return text_of(call.outcome->round) + " ended for " + text_of(call.peer) + " with " + text_of(*call.outcome) +
           ", and the " + (kept ? "residual" : "input") + " of tensor " + std::to_string(t) + " of its " +
           text_of(call.request) + " differs from its input";
  }
  return {};
}

}  // namespace lockstep::sim
