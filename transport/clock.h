// The only place that reads the time.
#pragma once

#include <chrono>

#include "core/base/time.h"

namespace lockstep::transport {

using Clock = std::chrono::steady_clock;

inline Instant now() {
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count()};
}

constexpr std::chrono::nanoseconds to_chrono(Duration duration) { return std::chrono::nanoseconds(duration.ns); }

inline Clock::time_point to_time_point(Instant instant) {
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(std::chrono::nanoseconds(instant.ns)));
}

}  // namespace lockstep::transport
