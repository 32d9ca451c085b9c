#include "sim/workload/liveness_bound.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/flow/max_min.h"
#include "sim/flow/stream_limits.h"
#include "sim/workload/workload.h"

namespace lockstep::sim {
namespace {

struct SlowestLink {
  std::uint64_t bytes_per_s;
  std::int64_t latency_ns;
};

// The share of a host in a line that all of its hosts use; of a stream, the rate that losses leave.
std::uint64_t slowest_line(const Plan& plan, std::int64_t latency_ns) {
  const flow::Options& flow = plan.network.flow;
  std::uint64_t slowest = flow::kMostRate;
  std::uint32_t lost = 0;
  const auto narrow = [&](std::uint64_t bytes_per_s, std::uint64_t hosts) {
    if (bytes_per_s != 0) slowest = std::min(slowest, std::max<std::uint64_t>(1, bytes_per_s / hosts));
  };
  narrow(flow.up_bytes_per_s, 1);
  narrow(flow.down_bytes_per_s, 1);
  for (const flow::LineOptions& line : flow.lines) {
    const auto hosts = static_cast<std::uint64_t>(line.hosts.count());
    narrow(line.up_bytes_per_s, hosts);
    narrow(line.down_bytes_per_s, hosts);
    lost += line.loss_ppm;
  }
  for (const LinkOptions& link : plan.network.links) lost = std::max(lost, link.loss_ppm);
  lost = std::min(lost + flow.loss_ppm, flow::kPerMillion - 1);
  return std::min(slowest, flow::loss_cap(flow.congestion, lost, 2 * latency_ns)) / flow::kPerMillion *
             (flow::kPerMillion - lost) +
         1;
}

SlowestLink slowest_link(const Plan& plan) {
  const NetworkOptions& net = plan.network;
  SlowestLink slowest{net.rate_bytes_per_s, net.latency_hi_ns};
  for (const LinkOptions& link : net.links) {
    if (link.rate_bytes_per_s != 0) slowest.bytes_per_s = std::min(slowest.bytes_per_s, link.rate_bytes_per_s);
    slowest.latency_ns = std::max(slowest.latency_ns, link.latency_ns);
  }
  slowest.latency_ns += net.jitter_ns;
  if (plan.links.bytes_per_second != 0)
    slowest.bytes_per_s = std::min(slowest.bytes_per_s, plan.links.bytes_per_second);
  if (net.flow.on) slowest.bytes_per_s = std::min(slowest.bytes_per_s, slowest_line(plan, slowest.latency_ns));
  // A stream moves a window in a round trip.
  const std::uint64_t round_trip = std::max<std::uint64_t>(1, 2 * static_cast<std::uint64_t>(slowest.latency_ns));
  const double windows =
      static_cast<double>(net.window_bytes) * plan.links.stripes * 1e9 / static_cast<double>(round_trip);
  if (windows < static_cast<double>(slowest.bytes_per_s)) {
    slowest.bytes_per_s = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(windows));
  }
  return slowest;
}

// Owners that take turns send the next piece when the final of an earlier one has arrived: a round trip for each turn,
// two in a grid. Two members own the most pieces each.
double turns_of(const Plan& plan, double bytes) {
  constexpr double kFarSegment = 65'536;  // of chunks that are large enough
  constexpr double kSegments = 8;         // of smaller chunks
  if (plan.links.turns == 0) return 0;
  const double chunk = bytes / 2;
  const double pieces = plan.links.segment_bytes == 0 ? std::max(kSegments, chunk / kFarSegment)
                                                      : chunk / static_cast<double>(plan.links.segment_bytes);
  const double round_trips = plan.program.grids ? 2 : 1;
  return round_trips * pieces / plan.links.turns;
}

}  // namespace

Duration round_trip_of(const Plan& plan) {
  const NetworkOptions& net = plan.network;
  std::int64_t latency = net.latency_hi_ns;
  for (const LinkOptions& link : net.links) latency = std::max(latency, link.latency_ns);
  const std::int64_t drivers = 10 * (2 * net.host_delay_ns + net.revoke_delay_ns) + 2 * plan.delays.timer.ns;
  return nanoseconds(2 * (latency + net.jitter_ns) + drivers);
}

Duration time_of_step(const Plan& plan) {
  const SlowestLink link = slowest_link(plan);
  std::vector<Work> step = plan.program.work;
  if (step.empty())
    step.assign(plan.program.ops_per_step, {wire::Collective::kAllGather, plan.program.max_count, DataType::kU64});
  double ns = 0;
  if (plan.state.shared) {
    const auto pieces = static_cast<double>(std::max<std::uint64_t>(kStatePieces, plan.state.pieces) + 1);
    const double bytes = 2.0 * pieces * 2100;
    ns += bytes * 1e9 / static_cast<double>(link.bytes_per_s);
    ns += bytes / 1024 * static_cast<double>(plan.delays.kernel_ns_per_kib);
  }
  if (plan.state.watch) {  // each call digests it
    ns += static_cast<double>(step.size()) * 2.0 * (kStatePieces + 1) * 2100 / 1024 *
          static_cast<double>(plan.delays.kernel_ns_per_kib);
  }
  if (plan.program.transfers || plan.program.sends_to_next > 0) {
    const std::uint64_t drawn = std::max(3 * plan.program.max_count, kManyTransfers * kSmallTransfer);
    const std::uint64_t elements =
        (plan.program.transfers ? kTransferPairs * drawn : 0) + plan.program.sends_to_next * kSmallTransfer;
    const double bytes = 8.0 * static_cast<double>(elements);
    ns += bytes * 1e9 / static_cast<double>(link.bytes_per_s);
    ns += 3 * bytes / 1024 * static_cast<double>(plan.delays.kernel_ns_per_kib);  // hashed, verified, copied
  }
  for (const Work& work : step) {
    const double bytes = static_cast<double>(work.count) * static_cast<double>(size_of(work.type));
    const double passes = wire::has_blocks(work.collective) ? plan.peers : 2;
    ns += passes * bytes * 1e9 / static_cast<double>(link.bytes_per_s);
    ns += passes * bytes / 1024 * static_cast<double>(plan.delays.kernel_ns_per_kib);
    ns += 2.0 * plan.peers * static_cast<double>(link.latency_ns);
    ns += turns_of(plan, bytes) * static_cast<double>(round_trip_of(plan).ns);
  }
  constexpr double kLongest = 1e17;  // three years
  return nanoseconds(static_cast<std::int64_t>(std::min(ns, kLongest)));
}

Duration liveness_bound(const Plan& plan) {
  const std::int64_t steps = std::max<std::int64_t>(4, plan.program.steps_per_admit);
  return plan.heartbeat * 250 + plan.program.call_timeout * 4 + (plan.program.think + time_of_step(plan)) * steps;
}

}  // namespace lockstep::sim
