// Limits the rate at which a peer sends shared states, so that transfers leave bandwidth to other traffic.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/time.h"

namespace lockstep::state {

class Pace {
 public:
  // 0: no limit.
  explicit Pace(std::uint64_t bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  [[nodiscard]] bool allows(Instant now) const { return now >= next_; }
  // The time at which the next piece may be sent.
  [[nodiscard]] Instant next() const { return next_; }
  // `bytes`: size of the piece that was sent.
  void sent(std::uint32_t bytes, Instant now) {
    if (bytes_per_second_ == 0) return;
    const std::uint64_t ns = std::uint64_t{bytes} * 1'000'000'000 / bytes_per_second_;
    next_ = std::max(now, next_) + nanoseconds(static_cast<std::int64_t>(ns));
  }

  // Left out: bytes_per_second_, an argument of the constructor.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(next_);
  }

 private:
  std::uint64_t bytes_per_second_;
  Instant next_{};
};

}  // namespace lockstep::state
