#include "tests/lab/wan/ring_bound.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/flow/ring_bound.h"
#include "sim/predict/real_lines.h"

namespace lockstep::wan {
namespace {

// Its rates and latencies, as the simulator knows lines: without losses, and with windows that hold nobody back.
sim::flow::Topology lines_of(const Topology& topology) {
  sim::flow::Options options{.on = true};
  const auto add = [&](std::uint64_t hosts, const LineOptions& up, const LineOptions& down) {
    options.lines.push_back(
        {.hosts = hosts, .up_bytes_per_s = up.rate_bytes_per_s, .down_bytes_per_s = down.rate_bytes_per_s});
  };
  for (std::uint32_t host = 0; host < topology.hosts(); ++host) {
    add(std::uint64_t{1} << host, topology.up[host], topology.down[host]);
  }
  for (const SharedLine& line : topology.shared) add(line.hosts, line.up, line.down);
  return {options, topology.hosts(), UINT64_MAX, [&topology](std::uint32_t from, std::uint32_t to) -> sim::flow::Way {
            const LineOptions& way = topology.way(from, to);
            return {way.latency.ns, way.rate_bytes_per_s, 0};
          }};
}

}  // namespace

RingBound ring_bound(const Topology& topology, std::uint64_t bytes) {
  const std::uint32_t n = topology.peers;
  if (n < 2) return {};
  std::vector<std::uint32_t> ring(n);
  std::iota(ring.begin(), ring.end(), 1U);
  const double packets = static_cast<double>(topology.mtu) / (topology.mtu - sim::kHeaderBytes);
  const auto each = static_cast<std::uint64_t>(2.0 * (n - 1) / n * static_cast<double>(bytes) * packets);
  sim::flow::Topology lines = lines_of(topology);
  const auto bound = sim::flow::ring_bound(lines, ring, std::vector<std::uint64_t>(n, each), 1);
  std::int64_t least_two_ns = INT64_MAX;
  const auto latency = [&](std::uint32_t peer) { return topology.way(peer, peer % n + 1).latency.ns; };
  for (const std::uint32_t peer : ring) {
    // Each chunk begins and ends elsewhere, and does without two hops in a row.
    least_two_ns = std::min(least_two_ns, latency(peer) + latency(peer % n + 1));
  }
  return {nanoseconds(bound.lines_ns), nanoseconds(2 * bound.around_ns - least_two_ns)};
}

}  // namespace lockstep::wan
