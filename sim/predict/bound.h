// The least time of a collective with one algorithm, in closed form (docs/costs.md): the latencies of its hops, the
// bytes on its busiest line, and the agreement. No call with this algorithm ends sooner. Left out are messages that say
// that a receiver is ready, kernels, and the time until streams are warm.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/time.h"
#include "core/wire/message.h"
#include "sim/flow/topology.h"
#include "sim/plan/work.h"

namespace lockstep::sim {

// A collective among hosts. The root is rank 0.
struct Setting {
  Work work;                         // whose algorithm does not matter here
  std::vector<std::uint32_t> hosts;  // in the order of ranks
  std::uint32_t coordinator = 0;     // its host
  std::uint32_t stripes = 1;
  std::uint32_t segment_bytes = 0;  // configured; 0: none
  bool by_rate = false;             // direct: ranks own what their lines carry (rule 58)
  bool peer_commit = false;         // members tell each other that they are done (rule 14)
};

struct Bound {
  wire::Algorithm algorithm = wire::Algorithm::kRing;
  std::uint32_t hops = 0;  // of data, one after the other
  Duration latencies;      // of these hops together
  Duration lines;          // until the busiest line has carried its bytes
  Duration last_hop;       // the shortest latency: a byte that has left its line arrives that much later
  Duration agreement;      // after that, until the last member knows that all have the result
  flow::Resource busiest = flow::kNoResource;  // the busiest line; kNoResource: streams, or all lines together
  bool together = false;                       // all lines together are the limit (rule 58)

  // Hops and bytes overlap, so the longer of the two counts.
  [[nodiscard]] Duration data() const { return std::max(latencies, lines + last_hop); }
  [[nodiscard]] Duration whole() const { return data() + agreement; }
};

// `setting`: at least two hosts, and a collective that has a choice of algorithms and some bytes.
Bound bound_of(flow::Topology& topology, const Setting& setting, wire::Algorithm algorithm);

// The bound with the least time; of equal ones the one with the fewest hops. There is at least one.
const Bound& least_of(std::span<const Bound> bounds);

}  // namespace lockstep::sim
