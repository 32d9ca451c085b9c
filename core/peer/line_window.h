// Computes how many contributions a peer keeps under way, so that its line is full (rule 61 of docs/protocol.md).
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/time.h"
#include "core/ring/shares.h"
#include "core/ring/under_way.h"

namespace lockstep::peer {

// The stripes to each other host. Each of them carries a segment while the next one waits.
struct StripesNow {
  std::uint16_t wanted = 0;
  bool on_trial = false;  // half as many were wanted when the rate was measured (rule 60)
};

// `rate`: of the line; 0: not known, and `first` bytes are under way to begin with. `round_trip`: to the farthest other
// host.
inline ring::UnderWay that_fills(ring::Rate rate, Duration round_trip, StripesNow stripes, std::uint64_t first) {
  // Half of what a line carries are contributions, and a final comes after a round trip and the time in queues. The
  // rate of few streams must not hold back twice as many.
  const std::uint64_t round_trips = stripes.on_trial ? 4 : 2;
  constexpr Duration kLongest = seconds(4);
  constexpr std::uint32_t kSegmentsPerStripe = 2;
  const std::uint32_t segments = kSegmentsPerStripe * stripes.wanted;
  if (rate == 0) return {first, segments, true};
  const auto microseconds = static_cast<std::uint64_t>(std::min(round_trip, kLongest).ns) / 1000;
  return {round_trips * (std::uint64_t{rate} * 1024 * microseconds / 1'000'000), segments, false};
}

}  // namespace lockstep::peer
