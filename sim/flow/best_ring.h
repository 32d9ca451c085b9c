// The order of hosts in which a ring is fastest.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/flow/ring_model.h"

namespace lockstep::sim::flow {

struct BestRing {
  std::vector<std::uint32_t> ring;
  std::int64_t ns = 0;
  bool every = false;  // ring was looked at, if only in closed form
};

// Looks at rings in closed form (all of them where they are few, else the nearest ones to good ones), and plays the
// most promising.
BestRing best_ring(const Topology& topology, const RingRun& run);

}  // namespace lockstep::sim::flow
