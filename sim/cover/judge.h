// The cells of many runs: hit, impossible, open, or impossible for a wrong reason.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/cover/cells.h"
#include "sim/cover/impossible.h"

namespace lockstep::sim::cover {

struct Verdict {
  std::size_t hit = 0;
  std::size_t impossible = 0;
  std::size_t unreached = 0;
  std::vector<Cell> open;    // neither hit nor explained
  std::vector<Cell> stale;   // hit, although a reason says that they cannot be
  std::vector<Cell> paid;    // hit, although listed as unreached
  std::vector<Cell> rarest;  // of those that were hit, in the fewest runs
};

inline constexpr std::size_t kRarest = 10;

Verdict judge(const Tally& tally, const Reasons& reasons);
inline bool is_complete(const Verdict& verdict) { return verdict.open.empty() && verdict.stale.empty(); }

}  // namespace lockstep::sim::cover
