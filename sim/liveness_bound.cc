#include "sim/liveness_bound.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lockstep::sim {
namespace {

struct SlowestLink {
  std::uint64_t bytes_per_s;
  std::int64_t latency_ns;
};

SlowestLink slowest_link(const Plan& plan) {
  const NetworkOptions& net = plan.network;
  SlowestLink slowest{net.rate_bytes_per_s, net.latency_hi_ns};
  for (const LinkOptions& link : net.links) {
    if (link.rate_bytes_per_s != 0) slowest.bytes_per_s = std::min(slowest.bytes_per_s, link.rate_bytes_per_s);
    slowest.latency_ns = std::max(slowest.latency_ns, link.latency_ns);
  }
  slowest.latency_ns += net.jitter_ns;
  // A stream moves a window in a round trip.
  const std::uint64_t round_trip = std::max<std::uint64_t>(1, 2 * static_cast<std::uint64_t>(slowest.latency_ns));
  const double windows = static_cast<double>(net.window_bytes) * plan.stripes * 1e9 / static_cast<double>(round_trip);
  if (windows < static_cast<double>(slowest.bytes_per_s)) {
    slowest.bytes_per_s = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(windows));
  }
  return slowest;
}

}  // namespace

Duration liveness_bound(const Plan& plan) {
  const SlowestLink link = slowest_link(plan);
  std::vector<Work> step = plan.work;
  if (step.empty()) step.assign(plan.ops_per_step, {peer::Collective::kAllGather, plan.max_count, DataType::kU64});
  double ns = 0;
  for (const Work& work : step) {
    const double bytes = static_cast<double>(work.count) * static_cast<double>(size_of(work.type));
    const double passes = work.collective == peer::Collective::kAllGather ? plan.peers : 2;
    ns += passes * bytes * 1e9 / static_cast<double>(link.bytes_per_s);
    ns += passes * bytes / 1024 * static_cast<double>(plan.kernel_ns_per_kib);
    ns += 2.0 * plan.peers * static_cast<double>(link.latency_ns);
  }
  constexpr double kLongest = 1e17;  // three years
  return plan.heartbeat * 250 + plan.call_timeout * 4 +
         nanoseconds(static_cast<std::int64_t>(std::min(4 * ns, kLongest)));
}

}  // namespace lockstep::sim
