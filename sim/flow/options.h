// The lines of hosts in the flow fidelity of the network.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/flow/host_set.h"

namespace lockstep::sim::flow {

enum class Congestion : std::uint8_t { kReno, kCubic, kBbr };
inline constexpr std::uint8_t kCongestionCount = 3;
std::string_view name_of(Congestion congestion);

// The hosts share one line for traffic to others, and one for traffic from others: the access line of a host, or the
// uplink of a region.
struct LineOptions {
  HostSet hosts;
  std::uint64_t up_bytes_per_s = 0;    // 0: no limit
  std::uint64_t down_bytes_per_s = 0;  // likewise
  std::uint32_t loss_ppm = 0;          // packets, either way

  bool operator==(const LineOptions&) const = default;
};

struct Options {
  bool on = false;                     // false: latency, and a rate for each pair of hosts; nothing is shared
  std::uint64_t up_bytes_per_s = 0;    // of every host that has no line of its own; 0: no limit
  std::uint64_t down_bytes_per_s = 0;  // likewise
  std::uint32_t loss_ppm = 0;          // packets, on every way
  Congestion congestion = Congestion::kCubic;
  bool cold = true;  // streams begin slowly, and again after a pause
  std::vector<LineOptions> lines{};

  bool operator==(const Options&) const = default;
};

}  // namespace lockstep::sim::flow
