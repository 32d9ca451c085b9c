// How fast a peer sends of shared states, so that those who take one over leave something of its line to others.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/time.h"

namespace lockstep::state {

class Pace {
 public:
  // 0: as fast as it goes.
  explicit Pace(std::uint64_t bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  [[nodiscard]] bool allows(Instant now) const { return now >= next_; }
  // When the next piece may go.
  [[nodiscard]] Instant next() const { return next_; }
  // `bytes`: of one piece.
  void sent(std::uint32_t bytes, Instant now) {
    if (bytes_per_second_ == 0) return;
    const std::uint64_t ns = std::uint64_t{bytes} * 1'000'000'000 / bytes_per_second_;
    next_ = std::max(now, next_) + nanoseconds(static_cast<std::int64_t>(ns));
  }

  // Left out: bytes_per_second_, that it is made of.
  template <typename Archive>
  void state(Archive& a) {
    a.all(next_);
  }

 private:
  std::uint64_t bytes_per_second_;
  Instant next_{};
};

}  // namespace lockstep::state
