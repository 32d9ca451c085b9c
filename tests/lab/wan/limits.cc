#include "tests/lab/wan/limits.h"

#include <algorithm>

#include "core/peer/options.h"
#include "sim/predict/candidates.h"
#include "sim/predict/real_lines.h"

namespace lockstep::wan {
namespace {

// Its rates and latencies, as the simulator knows lines: of payload, without losses, and with windows that hold nobody
// back.
sim::flow::Topology lines_of(const Topology& topology) {
  const auto rate = [mtu = topology.mtu](const LineOptions& line) {
    return sim::payload_rate(line.rate_bytes_per_s, mtu, false);
  };
  sim::flow::Options options{.on = true};
  const auto add = [&](const sim::HostSet& hosts, const LineOptions& up, const LineOptions& down) {
    options.lines.push_back({.hosts = hosts, .up_bytes_per_s = rate(up), .down_bytes_per_s = rate(down)});
  };
  for (std::uint32_t host = 0; host < topology.hosts(); ++host) {
    add(sim::only(host), topology.up[host], topology.down[host]);
  }
  for (const SharedLine& line : topology.shared) add(line.hosts, line.up, line.down);
  return {options, topology.hosts(), UINT64_MAX,
          [&topology, rate](std::uint32_t from, std::uint32_t to) -> sim::flow::Way {
            const LineOptions& way = topology.way(from, to);
            return {way.latency.ns, rate(way), 0};
          }};
}

// The members as the coordinator would name them.
peer::Cohort::Roster roster_of(const Topology& topology) {
  constexpr std::uint32_t kCoordinatorHost = 0;
  wire::View view;
  for (std::uint32_t peer = 1; peer <= topology.peers; ++peer) {
    wire::Member& member = view.members.emplace_back();
    member.id = PeerId{0, peer};
    member.round_trip = topology.way(peer, kCoordinatorHost).latency + topology.way(kCoordinatorHost, peer).latency;
  }
  return peer::Cohort::founded(view, GroupId{}).now();
}

}  // namespace

std::vector<sim::Bound> limits(const Topology& topology, std::uint64_t bytes) {
  sim::flow::Topology lines = lines_of(topology);
  const std::uint64_t elements = std::max<std::uint64_t>(1, bytes / sizeof(float));
  const sim::Work work{.collective = wire::Collective::kAllReduce, .count = elements};
  return sim::candidates(lines, sim::setting_of(work, roster_of(topology), peer::PeerOptions{}.direct.by_rate_bytes));
}

}  // namespace lockstep::wan
