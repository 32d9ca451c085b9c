// P2: a collective that nothing disturbs is no faster than its bytes go over the lines, and not much slower than that
// and the delays of its hops: within a stated factor of the flow-level bound.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/checkers/complaint.h"
#include "sim/checkers/p1_bytes.h"
#include "sim/flow/ring_bound.h"
#include "sim/flow/stream_limits.h"
#include "sim/plan/plan.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

// The tolerance of the bound. It does not model streams of one host that wait for each other, segments behind segments,
// and slow drivers.
inline constexpr std::int64_t kMostTimesTheBound = 3;

// The participants in rank order, and the times of their launches.
struct RingOfHosts {
  Instant first_made;
  Instant last_made;
  std::vector<std::uint32_t> hosts;
};

// Within what a call must end, beside what other calls of its peer ask of the same lines.
class TimeLimits {
 public:
  TimeLimits(const Plan& plan, flow::Topology& topology, const std::vector<std::uint32_t>& ring)
      : plan_(plan), topology_(topology), ring_(ring) {
    for (const std::uint32_t host : ring) {
      const flow::Route there = topology.route(host, 0);
      farthest_ns_ = std::max(farthest_ns_, there.round_trip_ns);
    }
  }

  // `itself`: the call whose time is checked.
  void add(const Call& call, bool itself) {
    const auto world = static_cast<std::uint32_t>(ring_.size());
    std::uint64_t bytes = 0;  // of everything, in and out
    for (const ring::Tensor& tensor : call.request.tensors) bytes += tensor.count * size_of(call.request.type);
    std::uint64_t most = 2 * bytes;
    if (oracle::has_blocks(call.request.collective)) {
      most = oracle::is_exchange(call.request.collective) ? bytes : 0;
      for (const ring::Tensor& tensor : call.request.tensors) most += tensor.recv.length;
    }
    const flow::RingBound bound =
        flow::ring_bound(topology_, ring_, std::vector<std::uint64_t>(world, most), plan_.links.stripes);
    const std::int64_t hop = bound.longest_ns + plan_.network.jitter_ns + 4 * plan_.network.host_delay_ns +
                             2 * plan_.network.revoke_delay_ns + 2 * plan_.delays.kernel.ns;
    // A stream that has been silent for a while begins with few packets, and doubles.
    const std::int64_t cold = plan_.network.flow.cold ? 20 * bound.longest_ns : 0;
    const std::int64_t kernels = static_cast<std::int64_t>(most / 1024) * plan_.delays.kernel_ns_per_kib;
    ns_ += bound.lines_ns * plan_.gangs.groups + hop * 2 * world + cold + kernels;
    if (!itself || call.request.collective != wire::Collective::kAllReduce || oracle::is_direct(*call.outcome) ||
        oracle::is_grid(*call.outcome)) {
      return;
    }
    std::vector<std::uint64_t> sent;
    for (std::uint32_t rank = 0; rank < world; ++rank) sent.push_back(ring_bytes(call, rank, world, 0));
    floor_ns_ = flow::ring_bound(topology_, ring_, sent, plan_.links.stripes).lines_ns;
  }

  [[nodiscard]] std::int64_t floor_ns() const { return floor_ns_; }
  // Agreement is a matter of some round trips to the coordinator, and of timers.
  [[nodiscard]] std::int64_t bound_ns() const { return ns_ + 4 * farthest_ns_ + 4 * plan_.delays.timer.ns; }

 private:
  const Plan& plan_;
  flow::Topology& topology_;
  const std::vector<std::uint32_t>& ring_;
  std::int64_t farthest_ns_ = 0;
  std::int64_t ns_ = 0;
  std::int64_t floor_ns_ = 0;
};

inline Complaint check_time(const Call& call, const RingOfHosts& ring, const TimeLimits& limits) {
  const std::int64_t all_ns = (call.ended - ring.first_made).ns;
  const std::int64_t last_ns = (call.ended - ring.last_made).ns;
  const auto said = [&](std::int64_t took_ns, const std::string& what, std::int64_t limit_ns) {
    return text_of(call.peer) + " took " + std::to_string(took_ns) + " ns for " + text_of(call.outcome->round) + ", " +
           what + " " + std::to_string(limit_ns) + " ns";
  };
  // Allows for rates that were rounded down to whole bytes per second, flow by flow.
  if (all_ns + all_ns / 1000 + 1000 < limits.floor_ns())
    return said(all_ns, "which its lines alone take", limits.floor_ns());
  if (last_ns > kMostTimesTheBound * limits.bound_ns()) {
    return said(last_ns, "more than " + std::to_string(kMostTimesTheBound) + " times the", limits.bound_ns());
  }
  return {};
}

}  // namespace lockstep::sim
