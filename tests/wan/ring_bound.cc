#include "tests/wan/ring_bound.h"

#include <algorithm>

namespace lockstep::wan {
namespace {

constexpr double kHeaderBytes = 52;  // IPv4 20, TCP 20, its time stamps 12

// How long the slowest line of the ring needs, in seconds, when each peer sends so many bytes to the next one.
double longest(const Topology& topology, double bytes) {
  double longest_s = 0;
  const auto carries = [&](const LineOptions& line, std::uint32_t peers) {
    if (line.rate_bytes_per_s == 0) return;
    longest_s = std::max(longest_s, peers * bytes / static_cast<double>(line.rate_bytes_per_s));
  };
  const auto next = [&](std::uint32_t peer) { return peer % topology.peers + 1; };
  for (std::uint32_t peer = 1; peer <= topology.peers; ++peer) {
    carries(topology.up[peer], 1);
    carries(topology.way(peer, next(peer)), 1);
    carries(topology.down[next(peer)], 1);
  }
  for (const SharedLine& line : topology.shared) {
    std::uint32_t leave = 0;
    std::uint32_t come = 0;
    for (std::uint32_t peer = 1; peer <= topology.peers; ++peer) {
      if (line.has(peer) && !line.has(next(peer))) ++leave;
      if (!line.has(peer) && line.has(next(peer))) ++come;
    }
    carries(line.up, leave);
    carries(line.down, come);
  }
  return longest_s;
}

}  // namespace

RingBound ring_bound(const Topology& topology, std::uint64_t bytes) {
  const std::uint32_t n = topology.peers;
  if (n < 2) return {};
  const double packets = static_cast<double>(topology.mtu) / (topology.mtu - kHeaderBytes);
  const double carrying_s = longest(topology, 2.0 * (n - 1) / n * static_cast<double>(bytes) * packets);
  std::int64_t around_ns = 0;
  std::int64_t least_two_ns = INT64_MAX;
  const auto latency = [&](std::uint32_t peer) { return topology.way(peer, peer % n + 1).latency.ns; };
  for (std::uint32_t peer = 1; peer <= n; ++peer) {
    around_ns += latency(peer);
    // Each chunk begins and ends elsewhere, and does without two hops in a row.
    least_two_ns = std::min(least_two_ns, latency(peer) + latency(peer % n + 1));
  }
  return {nanoseconds(static_cast<std::int64_t>(carrying_s * 1e9)), nanoseconds(2 * around_ns - least_two_ns)};
}

}  // namespace lockstep::wan
