#include "sim/predict/half_line.h"

#include <algorithm>

namespace lockstep::sim {
namespace {

// Of a limit; 0 is none.
std::uint64_t half_of(std::uint64_t bytes_per_s) {
  return bytes_per_s == 0 ? 0 : std::max<std::uint64_t>(1, bytes_per_s / 2);
}

void halve_ways(Plan& plan, std::uint32_t host) {
  NetworkOptions& net = plan.network;
  for (std::uint32_t other = 0; other <= plan.founders; ++other) {
    if (other == host) continue;
    std::uint64_t rate = net.rate_bytes_per_s;
    for (const LinkOptions& link : net.links) {
      const bool theirs = (link.a == host && link.b == other) || (link.a == other && link.b == host);
      if (theirs && link.rate_bytes_per_s != 0) rate = link.rate_bytes_per_s;  // the last one counts
    }
    if (rate != 0) net.links.push_back({.a = host, .b = other, .rate_bytes_per_s = half_of(rate)});
  }
}

}  // namespace

void halve_line(Plan& plan, std::uint32_t host) {
  flow::Options& flow = plan.network.flow;
  const HostSet alone = only(host);
  const auto is_own = [&](const flow::LineOptions& line) { return line.hosts == alone; };
  if (std::none_of(flow.lines.begin(), flow.lines.end(), is_own)) {
    flow.lines.push_back(
        {.hosts = alone, .up_bytes_per_s = flow.up_bytes_per_s, .down_bytes_per_s = flow.down_bytes_per_s});
  }
  bool limited = false;
  for (flow::LineOptions& line : flow.lines) {
    if (!is_own(line)) continue;
    limited = limited || line.up_bytes_per_s != 0 || line.down_bytes_per_s != 0;
    line.up_bytes_per_s = half_of(line.up_bytes_per_s);
    line.down_bytes_per_s = half_of(line.down_bytes_per_s);
  }
  if (!limited) halve_ways(plan, host);
}

}  // namespace lockstep::sim
