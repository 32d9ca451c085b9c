#include "sim/flow/topology.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "sim/flow/stream_limits.h"

namespace lockstep::sim::flow {
namespace {

// Of either of two, one after the other.
std::uint32_t lost_in_either(std::uint32_t a_ppm, std::uint32_t b_ppm) {
  const std::uint64_t both = std::uint64_t{a_ppm} * b_ppm / kPerMillion;
  return static_cast<std::uint32_t>(std::uint64_t{a_ppm} + b_ppm - both);
}

}  // namespace

std::uint64_t Route::goodput(std::uint64_t rate) const {
  return std::max<std::uint64_t>(
      1, rate / kPerMillion * (kPerMillion - loss_ppm) + rate % kPerMillion * (kPerMillion - loss_ppm) / kPerMillion);
}

Topology::Topology(const Options& options, std::uint32_t hosts, std::uint64_t window_bytes, Ways ways)
    : options_(options),
      hosts_(hosts),
      window_bytes_(window_bytes),
      ways_(std::move(ways)),
      way_resources_(std::size_t{hosts} * hosts, kNoResource) {
  LOCKSTEP_ASSERT(hosts <= kMaxHosts);
  HostSet have_own;
  for (const LineOptions& line : options.lines) {
    if (line.hosts.count() == 1) have_own |= line.hosts;
  }
  lines_of_.resize(hosts);
  const auto add_line = [&](const LineOptions& line) {
    for (std::uint32_t host = 0; host < hosts; ++host) {
      if (line.hosts.test(host)) lines_of_[host].push_back(static_cast<std::uint32_t>(lines_.size()));
    }
    Line added{line.hosts, kNoResource, kNoResource, line.loss_ppm};
    if (line.up_bytes_per_s != 0) added.up = add(line.up_bytes_per_s, {Name::Kind::kUp, line.hosts, 0, 0});
    if (line.down_bytes_per_s != 0) added.down = add(line.down_bytes_per_s, {Name::Kind::kDown, line.hosts, 0, 0});
    lines_.push_back(added);
  };
  for (std::uint32_t host = 0; host < hosts; ++host) {
    if (!have_own.test(host)) add_line({only(host), options.up_bytes_per_s, options.down_bytes_per_s, 0});
  }
  for (const LineOptions& line : options.lines) add_line(line);
}

Resource Topology::add(std::uint64_t bytes_per_s, const Name& name) {
  capacities_.push_back(bytes_per_s);
  names_.push_back(name);
  return static_cast<Resource>(capacities_.size() - 1);
}

Resource Topology::add_way(std::uint32_t from, std::uint32_t to, std::uint64_t bytes_per_s) {
  Resource& resource = way_resources_[std::size_t{from} * hosts_ + to];
  if (resource == kNoResource) {
    resource = add(bytes_per_s, {Name::Kind::kWay, 0, from, to});
  } else {
    capacities_[resource] = bytes_per_s;
  }
  return resource;
}

void Topology::slow_way(std::uint32_t from, std::uint32_t to, std::uint64_t factor) {
  const std::uint64_t rate = ways_(from, to).rate_bytes_per_s;
  (void)add_way(from, to, rate == 0 ? kMostRate : rate);
  if (factor > 1) (void)add_way(from, to, std::max<std::uint64_t>(1, route(from, to).narrowest / factor));
}

Route Topology::route(std::uint32_t from, std::uint32_t to) {
  const Way way = ways_(from, to);
  Route route;
  route.latency_ns = way.latency_ns;
  route.round_trip_ns = way.latency_ns + ways_(to, from).latency_ns;
  route.loss_ppm = lost_in_either(options_.loss_ppm, way.loss_ppm);
  const auto cross = [&](Resource resource) {
    if (resource == kNoResource) return;
    route.path.add(resource);
    route.narrowest = std::min(route.narrowest, capacities_[resource]);
  };
  LOCKSTEP_ASSERT(from < hosts_ && to < hosts_);
  if (from != to) {
    const bool limited = way.rate_bytes_per_s != 0 && way.rate_bytes_per_s < kMostRate;
    const Resource made = way_resources_[std::size_t{from} * hosts_ + to];
    cross(limited && made == kNoResource ? add_way(from, to, way.rate_bytes_per_s) : made);
  }
  // The lines that have one of the two hosts, in the order of all lines.
  const std::vector<std::uint32_t>& ups = lines_of_[from];
  const std::vector<std::uint32_t>& downs = lines_of_[to];
  auto up = ups.begin();
  auto down = downs.begin();
  while (up != ups.end() || down != downs.end()) {
    const bool sends = down == downs.end() || (up != ups.end() && *up <= *down);
    const bool both = sends && down != downs.end() && up != ups.end() && *up == *down;
    const Line& line = lines_[sends ? *up : *down];
    up += sends ? 1 : 0;
    down += !sends || both ? 1 : 0;
    if (both) continue;
    cross(sends ? line.up : line.down);
    route.loss_ppm = lost_in_either(route.loss_ppm, line.loss_ppm);
  }
  route.weight = weight_of(route.round_trip_ns);
  route.window_cap = window_cap(window_bytes_, route.round_trip_ns);
  route.loss_cap = loss_cap(options_.congestion, route.loss_ppm, route.round_trip_ns);
  return route;
}

}  // namespace lockstep::sim::flow
