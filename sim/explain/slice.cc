#include "sim/explain/slice.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "core/base/assert.h"

namespace lockstep::sim {

int distance_of(Because because) {
  switch (because) {
    case Because::kFault: return 0;
    case Because::kMessage:
    case Because::kKernel:
    case Because::kState: return 1;
    case Because::kStream: return 2;
    case Because::kTimer: return 3;
    case Because::kProgram: return 5;
    case Because::kView: return 6;
  }
  LOCKSTEP_UNREACHABLE();
}

std::vector<MomentId> causal_slice(const History& history, MomentId of, std::size_t most) {
  std::vector<MomentId> slice;
  if (of >= history.moments.size()) return slice;
  using Step = std::tuple<int, MomentId, MomentId>;  // how far, how long ago, which
  std::priority_queue<Step, std::vector<Step>, std::greater<>> open;
  std::vector<bool> taken(history.moments.size());
  open.emplace(0, 0, of);
  while (!open.empty() && slice.size() < most) {
    const auto [far, ago, moment] = open.top();
    open.pop();
    if (far > kSliceRadius) break;
    if (taken[moment]) continue;
    taken[moment] = true;
    slice.push_back(moment);
    for (const Cause& cause : history.moments[moment].causes) {
      if (!taken[cause.moment]) open.emplace(far + distance_of(cause.because), of - cause.moment, cause.moment);
    }
  }
  std::sort(slice.begin(), slice.end());
  return slice;
}

}  // namespace lockstep::sim
