// The time that lines need at least for a direct all-reduce whose ranks own what their lines carry (rule 58 of
// docs/protocol.md), whatever the shares are.
#pragma once

#include <cstdint>
#include <span>

#include "sim/flow/topology.h"

namespace lockstep::sim {

struct SharesBound {
  std::int64_t ns = 0;
  flow::Resource busiest = flow::kNoResource;  // kNoResource: the streams of one host, or all lines together
  bool together = false;                       // all lines together are the limit
};

// `bytes`: of the tensor; `hosts`: three or more.
SharesBound shares_bound(flow::Topology& topology, std::span<const std::uint32_t> hosts, std::uint64_t bytes,
                         std::uint32_t stripes);

}  // namespace lockstep::sim
