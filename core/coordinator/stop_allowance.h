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
  // The peer has stopped a round. False: it stops more rounds than any program does.
  [[nodiscard]] bool use(Instant now) {
    full_at_ = std::max(full_at_, now) + kTimeOfStop;
    return full_at_ - now <= kTimeOfStop * kMaxStopsAtOnce;
  }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(full_at_);
  }

 private:
  static constexpr Duration kTimeOfStop = seconds(1) / kStopsPerSecond;

  Instant full_at_{};  // when the allowance is full again
};

}  // namespace lockstep::coordinator
