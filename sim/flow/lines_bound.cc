#include "sim/flow/lines_bound.h"

#include <algorithm>
#include <vector>

#include "sim/flow/wide.h"

namespace lockstep::sim::flow {

std::int64_t time_of(std::uint64_t bytes, std::uint64_t bytes_per_s) {
  return static_cast<std::int64_t>(Wide{bytes} * 1'000'000'000U / std::max<std::uint64_t>(bytes_per_s, 1));
}

std::uint64_t rate_alone(const Route& route, std::uint32_t stripes) {
  return std::min(kMostRate, route.goodput(route.cap())) * stripes;
}

LinesBound lines_bound(Topology& topology, std::span<const Transfer> transfers, std::uint32_t stripes) {
  LinesBound bound;
  std::vector<std::uint64_t> carried;
  for (const Transfer& transfer : transfers) {
    const Route route = topology.route(transfer.from, transfer.to);
    carried.resize(topology.capacities().size());
    for (const Resource resource : route.path.all()) carried[resource] += transfer.bytes;
    bound.ns = std::max(bound.ns, time_of(transfer.bytes, rate_alone(route, stripes)));
  }
  for (Resource resource = 0; resource < carried.size(); ++resource) {
    const std::int64_t ns = time_of(carried[resource], topology.capacities()[resource]);
    if (ns < bound.ns || ns == 0) continue;
    if (ns == bound.ns && bound.busiest != kNoResource) continue;  // the first of equal ones
    bound = {ns, resource};
  }
  return bound;
}

}  // namespace lockstep::sim::flow
