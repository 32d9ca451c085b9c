#include "core/ring/runs.h"

#include "core/ring/schedule.h"

namespace lockstep::ring {
namespace {

bool joins(wire::Collective collective, bool encodes) {
  switch (collective) {
    case wire::Collective::kAllReduce: return !encodes;
    case wire::Collective::kBroadcast:
    case wire::Collective::kReduce: return true;
    case wire::Collective::kReduceScatter:  // each tensor has chunks of its own
    case wire::Collective::kAllGather:
    case wire::Collective::kGather:
    case wire::Collective::kScatter:
    case wire::Collective::kAllToAll:
    case wire::Collective::kBarrier:
    case wire::Collective::kSync: return false;
  }
  return false;
}

}  // namespace

std::vector<Run> runs_of(wire::Collective collective, bool encodes, std::span<const std::uint64_t> counts,
                         std::size_t element_bytes) {
  const bool may_join = joins(collective, encodes);
  const auto is_small = [&](std::uint64_t count) { return may_join && count <= kWholeBytes / element_bytes; };
  std::vector<Run> runs;
  bool open = false;  // the last run takes more tensors
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const bool small = is_small(counts[i]);
    if (!open || !small) {
      runs.push_back({i, i, 0});
      open = small;
    }
    runs.back().end = i + 1;
    runs.back().count += counts[i];
  }
  return runs;
}

}  // namespace lockstep::ring
