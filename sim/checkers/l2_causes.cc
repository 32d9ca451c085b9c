#include "sim/checkers/l2_causes.h"

#include <algorithm>

namespace lockstep::sim {

Complaint Causes::lost(PeerId peer, const std::vector<std::uint32_t>& hosts, const std::string& text) const {
  const auto touches = [&](std::uint32_t host) {
    return host == 0 || std::find(hosts.begin(), hosts.end(), host) != hosts.end();
  };
  for (const Entry& entry : begun_) {
    const bool of_pair = entry.fault == Fault::kCut || entry.fault == Fault::kCutBoth || entry.fault == Fault::kReset ||
                         entry.fault == Fault::kSilence;
    if (may_lose_members(entry.fault) && (touches(entry.a) || (of_pair && touches(entry.b)))) return {};
  }
  return text_of(peer) + " lost the run (" + text + "), and nothing had happened to it";
}

Complaint Causes::aborted(const Call& call) const {
  const Status status = call.outcome->status;
  if (call.kind != CallKind::kCollective || status == Status::kOk) return {};
  for (const Entry& entry : begun_) {
    const bool excuses = may_lose_members(entry.fault) || entry.fault == Fault::kStop ||
                         entry.fault == Fault::kTimeout || entry.fault == Fault::kMismatch ||
                         entry.fault == Fault::kSkip;
    if (excuses) return {};
  }
  if (status == Status::kTimedOut && call.ended - call.made >= call.request.timeout) return {};
  return text_of(call.request) + " of " + text_of(call.peer) + " ended with " + text_of(*call.outcome) +
         ", and nothing had happened";
}

}  // namespace lockstep::sim
