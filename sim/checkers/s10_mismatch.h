// S10: arguments that differ between peers are refused on all of them alike, with a message, and reduce nothing. First
// writer wins: the first launch of a round states its arguments.
#pragma once

#include <algorithm>

#include "sim/checkers/complaint.h"
#include "sim/checkers/oracle_chunks.h"
#include "sim/checkers/s2_exact_fold.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

inline bool same_arguments(const ring::Request& a, const ring::Request& b) {
  using wire::Collective;
  if (a.collective != b.collective || a.retry != b.retry || a.minimum_world != b.minimum_world) return false;
  if (a.collective == Collective::kBarrier) return true;
  if (a.type != b.type || a.tensors.size() != b.tensors.size() || a.stated != b.stated) return false;
  if (a.collective == Collective::kAllGather || a.collective == Collective::kAllToAll) return true;
  const bool has_root = a.collective == Collective::kBroadcast || a.collective == Collective::kReduce ||
                        a.collective == Collective::kGather || a.collective == Collective::kScatter;
  if (has_root && a.root != b.root) return false;
  if (a.collective == Collective::kGather || a.collective == Collective::kScatter) return true;
  if (a.collective != Collective::kBroadcast && a.op != b.op) return false;
  if (a.formats != b.formats || a.weight.has_value() != b.weight.has_value()) return false;
  if (oracle::asked(a) != oracle::asked(b)) return false;
  return std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(),
                    [](const ring::Tensor& x, const ring::Tensor& y) { return x.count == y.count; });
}

inline Complaint check_mismatch(const Call& call, const FindCall& find) {
  if (call.kind != CallKind::kCollective) return {};
  const peer::Outcome& outcome = *call.outcome;
  if (outcome.status == Status::kMismatch && outcome.text.empty()) {
    return text_of(outcome.round) + " is a mismatch for " + text_of(call.peer) + ", and the text does not say of what";
  }
  if (outcome.status != Status::kOk || outcome.contributors == nullptr) return {};
  for (const PeerId& id : *outcome.contributors) {
    const Call* theirs = find(id, outcome.round);
    if (theirs != nullptr && theirs->refused) {
      return text_of(outcome.round) + " is committed, although " + text_of(id) + " refused it";
    }
    if (theirs == nullptr || same_arguments(call.request, theirs->request)) continue;
    return text_of(outcome.round) + " is committed, although " + text_of(call.peer) + " called " +
           text_of(call.request) + " and " + text_of(id) + " " + text_of(theirs->request);
  }
  return {};
}

}  // namespace lockstep::sim
