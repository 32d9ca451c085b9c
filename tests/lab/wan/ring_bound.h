// What the lines of a topology allow a ring of its peers, in the order of their names: by the bound of the simulator
// (sim/flow/ring_bound.h).
#pragma once

#include <cstdint>

#include "core/base/time.h"
#include "tests/lab/wan/topology.h"

namespace lockstep::wan {

struct RingBound {
  // The slowest line carries 2(n-1)/n of the tensor, in full packets with 52 bytes of IP and TCP in each.
  Duration carrying;
  // A chunk goes around twice, all but two hops: their latencies, of the chunk that has the longest way.
  Duration latencies;
};

RingBound ring_bound(const Topology& topology, std::uint64_t bytes);

}  // namespace lockstep::wan
