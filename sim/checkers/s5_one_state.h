// S5: one state per revision. Whoever ends a sync with success holds the bytes, the values and the revision that one contributor
// came with, and never a mixture; what may differ is its own still, and who only sends was not written to. Whoever ends without, and is
// told that its state is one, holds what it came with.
#pragma once

#include <algorithm>
#include <string>

#include "sim/call.h"
#include "sim/checkers/complaint.h"
#include "sim/checkers/s2_exact_fold.h"
#include "sim/memory.h"
#include "sim/text.h"

namespace lockstep::sim {

// Whether all tensors in the caller's memory are those that `source` came with.
inline bool holds_state_of(const Call& source, const Call& call, const Memory& memory) {
  const state::Statement& state = *call.request.state;
  for (std::size_t t = 0; t < call.inputs.size(); ++t) {
    const Call& of = state.manifest.tensors[t].may_differ ? call : source;
    if (memory.fingerprint(input_of(call.request, call.request.tensors[t])) != of.inputs[t]) return false;
  }
  return true;
}

inline Complaint check_one_state(const Call& call, const Memory& memory, const FindCall& find) {
  if (call.kind != CallKind::kCollective || call.request.collective != peer::Collective::kSync) return {};
  const peer::Outcome& outcome = *call.outcome;
  const std::string who = text_of(outcome.round) + " of " + text_of(call.peer) + ", a " + text_of(call.request);
  if (outcome.status != Status::kOk) {
    if (!outcome.state_defined || holds_state_of(call, call, memory)) return {};
    return who + ", ended with " + text_of(outcome) + ": its state is said to be one, and is not what it was";
  }
  const auto is_source = [&](const PeerId& peer) {
    const Call* source = find(peer, outcome.round);
    if (source == nullptr) return false;
    const state::Statement& state = *source->request.state;
    return state.revision == outcome.revision && state.values == outcome.values &&
           holds_state_of(*source, call, memory);
  };
  if (std::none_of(outcome.contributors->begin(), outcome.contributors->end(), is_source)) {
    return who + ", ended at revision " + std::to_string(outcome.revision) +
           " with a state that none of the contributors came with";
  }
  const bool only_sends = call.request.state->strategy == state::Strategy::kSendOnly;
  if (only_sends && !holds_state_of(call, call, memory)) return who + ", only sends, and was written to";
  return {};
}

}  // namespace lockstep::sim
