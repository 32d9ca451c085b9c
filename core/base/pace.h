// Limits the rate at which a peer sends something, so that it leaves bandwidth to other traffic.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/time.h"

namespace lockstep {

class Pace {
 public:
  // 0: no limit. `ahead`: what may go at once after a pause, beside one piece; timers that are late then lose nothing.
  explicit Pace(std::uint64_t bytes_per_second, Duration ahead = {})
      : bytes_per_second_(bytes_per_second), ahead_(ahead) {}

  [[nodiscard]] bool allows(Instant now) const { return now >= next(); }
  // The time at which the next piece may be sent.
  [[nodiscard]] Instant next() const { return Instant{std::max<std::int64_t>(0, next_.ns - ahead_.ns)}; }
  // `bytes`: size of the piece that was sent.
  void sent(std::uint64_t bytes, Instant now) {
    if (bytes_per_second_ == 0) return;
    const std::uint64_t ns = bytes * 1'000'000'000 / bytes_per_second_;
    next_ = std::max(now, next_) + nanoseconds(static_cast<std::int64_t>(ns));
  }

  // Left out: bytes_per_second_ and ahead_, arguments of the constructor.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(next_);
  }

 private:
  std::uint64_t bytes_per_second_;
  Duration ahead_;
  Instant next_{};
};

}  // namespace lockstep
