// Measures this peer's line: the bytes a second that the line carries towards the other hosts (rule 58 of
// docs/protocol.md). The other hosts acknowledge the bytes of collectives. A line can carry what it has carried once,
// so the best window counts. A window is so long that the bursts of streams level out. Only the way up is measured: the
// way up of most lines is the thinner one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/peer/busy_window.h"
#include "core/ring/shares.h"

namespace lockstep::peer {

class LineRate {
 public:
  // The least that a window has.
  LineRate(Duration time, std::uint64_t bytes) : window_(time, bytes) {}

  // See BusyWindow::written().
  void written(const io::Written& all, std::uint64_t bytes, Instant now) {
    const auto carried = window_.written(all, bytes, now);
    if (!carried) return;
    best_.front() =
        std::max(best_.front(), static_cast<ring::Rate>(std::min<std::uint64_t>(carried->rate(), UINT32_MAX)));
  }

  // The best of the last calls, for one that begins; 0: not known. A line that has become thinner is forgotten in as
  // many calls.
  [[nodiscard]] ring::Rate of_last_calls() {
    const ring::Rate rate = std::ranges::max(best_);
    if (best_.front() == 0) return rate;
    std::ranges::copy_backward(best_.begin(), best_.end() - 1, best_.end());
    best_.front() = 0;
    return rate;
  }

  // The same, while calls run.
  [[nodiscard]] ring::Rate best() const { return std::ranges::max(best_); }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(window_, best_);
  }

 private:
  static constexpr std::size_t kCalls = 4;

  BusyWindow window_;
  std::array<ring::Rate, kCalls> best_{};  // the call that runs first
};

}  // namespace lockstep::peer
