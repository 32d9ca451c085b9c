// How many rounds one peer may still stop (rule 67 of docs/protocol.md). A full allowance covers more calls than a
// program can abort at once; each stop uses up one, and the allowance grows back with time. Never sees a round.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/time.h"
#include "core/wire/limits.h"

namespace lockstep::coordinator {

class StopAllowance {
 public:
  struct Limits {
    std::uint32_t at_once = kMaxStopsAtOnce;
    std::uint32_t per_second = kStopsPerSecond;
  };
  // The peer has stopped a round. False: it stops more rounds than any program does.
  [[nodiscard]] bool use(Instant now, const Limits& limits) {
    const Duration time_of_stop = seconds(1) / limits.per_second;
    full_at_ = std::max(full_at_, now) + time_of_stop;
    return full_at_ - now <= time_of_stop * limits.at_once;
  }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(full_at_);
  }

 private:
  Instant full_at_{};  // when the allowance is full again
};

}  // namespace lockstep::coordinator
