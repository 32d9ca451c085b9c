#include "sim/flow/ring_bound.h"

#include <algorithm>
#include <vector>

#include "core/base/assert.h"
#include "sim/flow/wide.h"

namespace lockstep::sim::flow {
namespace {

std::int64_t time_of(std::uint64_t bytes, std::uint64_t bytes_per_s) {
  return static_cast<std::int64_t>(Wide{bytes} * 1'000'000'000U / std::max<std::uint64_t>(bytes_per_s, 1));
}

}  // namespace

RingBound ring_bound(Topology& topology, std::span<const std::uint32_t> ring, std::span<const std::uint64_t> bytes,
                     std::uint32_t stripes) {
  LOCKSTEP_ASSERT(ring.size() == bytes.size());
  RingBound bound;
  if (ring.size() < 2) return bound;
  std::vector<std::uint64_t> carried;
  for (std::size_t rank = 0; rank < ring.size(); ++rank) {
    const Route route = topology.route(ring[rank], ring[(rank + 1) % ring.size()]);
    carried.resize(topology.capacities().size());
    for (const Resource resource : route.path.all()) carried[resource] += bytes[rank];
    const std::uint64_t alone = std::min(kMostRate, route.goodput(route.cap())) * stripes;
    bound.lines_ns = std::max(bound.lines_ns, time_of(bytes[rank], alone));
    bound.around_ns += route.latency_ns;
    bound.longest_ns = std::max(bound.longest_ns, route.latency_ns);
  }
  for (Resource resource = 0; resource < carried.size(); ++resource) {
    bound.lines_ns = std::max(bound.lines_ns, time_of(carried[resource], topology.capacities()[resource]));
  }
  return bound;
}

}  // namespace lockstep::sim::flow
