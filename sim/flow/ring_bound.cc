#include "sim/flow/ring_bound.h"

#include <algorithm>
#include <vector>

#include "core/base/assert.h"
#include "sim/flow/lines_bound.h"

namespace lockstep::sim::flow {

RingBound ring_bound(Topology& topology, std::span<const std::uint32_t> ring, std::span<const std::uint64_t> bytes,
                     std::uint32_t stripes) {
  LOCKSTEP_ASSERT(ring.size() == bytes.size());
  RingBound bound;
  if (ring.size() < 2) return bound;
  std::vector<Transfer> transfers;
  transfers.reserve(ring.size());
  for (std::size_t rank = 0; rank < ring.size(); ++rank) {
    const std::uint32_t next = ring[(rank + 1) % ring.size()];
    transfers.push_back({ring[rank], next, bytes[rank]});
    const std::int64_t latency_ns = topology.route(ring[rank], next).latency_ns;
    bound.around_ns += latency_ns;
    bound.longest_ns = std::max(bound.longest_ns, latency_ns);
  }
  bound.lines_ns = lines_bound(topology, transfers, stripes).ns;
  return bound;
}

}  // namespace lockstep::sim::flow
