#include "sim/network/ways.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "sim/flow/stream_limits.h"

namespace lockstep::sim {
namespace {

constexpr std::uint64_t kLeastWindow = 1500;  // bytes: a packet
constexpr std::uint64_t kPiecesPerSecond = 100;
constexpr std::uint64_t kNoLimit = 1'000'000'000'000;

}  // namespace

Ways::Ways(const NetworkOptions& options, std::uint32_t hosts, Dice dice)
    : hosts_(hosts), most_window_(options.window_bytes), ways_(std::size_t{hosts} * hosts) {
  LOCKSTEP_ASSERT(hosts <= kMaxHosts);
  for (std::uint32_t from = 0; from < hosts; ++from) {
    for (std::uint32_t to = 0; to < hosts; ++to) {
      between(from, to).latency = static_cast<std::int64_t>(dice.range(
          static_cast<std::uint64_t>(options.latency_lo_ns), static_cast<std::uint64_t>(options.latency_hi_ns),
          Purpose::kLink, std::min(from, to), std::max(from, to)));
      between(from, to).rate = options.rate_bytes_per_s;
    }
  }
  for (const LinkOptions& link : options.links) {
    for (Way* const way : {&between(link.a, link.b), &between(link.b, link.a)}) {
      if (link.latency_ns != 0) way->latency = link.latency_ns;
      if (link.rate_bytes_per_s != 0) way->rate = link.rate_bytes_per_s;
    }
  }
  for (Way& way : ways_) set_window(way);
}

std::size_t Ways::index_of(std::uint32_t from, std::uint32_t to) const {
  LOCKSTEP_ASSERT(from < hosts_ && to < hosts_);
  return std::size_t{from} * hosts_ + to;
}

// Streams share a slow line packet by packet: none is silent while others send their windows, nor while its own window
// is on its way.
void Ways::set_window(Way& way) const {
  const auto ms = static_cast<std::uint64_t>((flow::kTurnNs + 2 * way.latency) / 1'000'000);
  way.window = std::min(most_window_, std::max(kLeastWindow, way.rate / way.slow * ms / 1000));
  way.piece = std::max(kLeastWindow, way.rate / way.slow / kPiecesPerSecond);
}

void Ways::slow(std::uint32_t a, std::uint32_t b, std::uint64_t factor) {
  for (Way* const way : {&between(a, b), &between(b, a)}) {
    way->slow = factor;
    set_window(*way);
  }
}

flow::Topology Ways::lay_lines(const NetworkOptions& options) {
  std::vector<flow::Way> laid;
  for (const Way& way : ways_) laid.push_back({way.latency, way.rate, 0});
  for (const LinkOptions& link : options.links) {
    if (link.loss_ppm == 0) continue;
    laid[index_of(link.a, link.b)].loss_ppm = laid[index_of(link.b, link.a)].loss_ppm = link.loss_ppm;
  }
  flow::Topology topology(options.flow, hosts_, options.window_bytes,
                          [laid = std::move(laid), hosts = hosts_](std::uint32_t from, std::uint32_t to) {
                            return laid[std::size_t{from} * hosts + to];
                          });
  for (std::uint32_t from = 0; from < hosts_; ++from) {
    for (std::uint32_t to = 0; to < hosts_; ++to) {
      const flow::Route route = topology.route(from, to);
      between(from, to).rate = std::min({route.narrowest, route.loss_cap, kNoLimit});
      between(from, to).loss_ppm = route.loss_ppm;
      set_window(between(from, to));
    }
  }
  return topology;
}

}  // namespace lockstep::sim
