#include "sim/flow/stream_limits.h"

#include <algorithm>
#include <cmath>

#include "core/base/assert.h"
#include "sim/flow/max_min.h"

namespace lockstep::sim::flow {
namespace {

constexpr std::uint32_t kHeavyLossPpm = 200'000;
constexpr double kReno = 1.2247448713915890;   // sqrt(3/2)
constexpr double kCubic = 1.0538289313722502;  // (C (3 + b) / (4 (1 - b)))^(1/4) with C = 0.4, b = 0.7
constexpr std::uint64_t kWeightUnit = 10'000'000'000'000;

std::uint64_t bounded(double rate) {
  constexpr auto kMost = static_cast<double>(kMostRate);
  return rate < 1 ? 1 : rate < kMost ? static_cast<std::uint64_t>(rate) : kMostRate;
}

}  // namespace

std::string_view name_of(Congestion congestion) {
  switch (congestion) {
    case Congestion::kReno: return "reno";
    case Congestion::kCubic: return "cubic";
    case Congestion::kBbr: return "bbr";
  }
  LOCKSTEP_UNREACHABLE();
}

std::uint64_t window_cap(std::uint64_t window_bytes, std::int64_t round_trip_ns) {
  if (round_trip_ns <= 0) return kMostRate;
  return bounded(static_cast<double>(window_bytes) * 1e9 / static_cast<double>(round_trip_ns));
}

// Square roots, products and quotients alone are rounded alike on every machine; pow() is not.
std::uint64_t loss_cap(Congestion congestion, std::uint32_t loss_ppm, std::int64_t round_trip_ns) {
  if (loss_ppm == 0 || round_trip_ns <= 0) return kMostRate;
  if (congestion == Congestion::kBbr && loss_ppm < kHeavyLossPpm) return kMostRate;
  const double round_trip = static_cast<double>(round_trip_ns) / 1e9;
  const double one_in = static_cast<double>(kPerMillion) / static_cast<double>(loss_ppm);  // packets is lost
  const double packet_rate = static_cast<double>(kPacketBytes) / round_trip;
  const std::uint64_t reno = bounded(packet_rate * (kReno * std::sqrt(one_in)));
  if (congestion != Congestion::kCubic) return reno;
  const double root = std::sqrt(round_trip * one_in);
  return std::max(reno, bounded(packet_rate * (kCubic * (root * std::sqrt(root)))));
}

std::uint64_t weight_of(std::int64_t round_trip_ns) {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(round_trip_ns, 0) + kTurnNs);
  return std::clamp<std::uint64_t>(kWeightUnit / ns, 1, kMostWeight);
}

}  // namespace lockstep::sim::flow
