// The lower bound that lines set for the time of a ring, in closed form: no schedule can be faster.
#pragma once

#include <cstdint>
#include <span>

#include "sim/flow/topology.h"

namespace lockstep::sim::flow {

struct RingBound {
  std::int64_t lines_ns = 0;    // until the busiest line, or stream, has carried its part
  std::int64_t around_ns = 0;   // the latencies of all hops, once around
  std::int64_t longest_ns = 0;  // the longest latency of one hop
};

// Every host of the ring sends so many bytes to the next one, over so many streams.
RingBound ring_bound(Topology& topology, std::span<const std::uint32_t> ring, std::span<const std::uint64_t> bytes,
                     std::uint32_t stripes);

}  // namespace lockstep::sim::flow
