// Measures this peer's line: the bytes a second that the line carries towards the other hosts (rule 58 of
// docs/protocol.md). The other hosts acknowledge the bytes of collectives. A line can carry what it has carried once,
// so the best window counts. A window is so long that the bursts of streams level out. Only the way up is measured: the
// way up of most lines is the thinner one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/time.h"
#include "core/io/stream.h"
#include "core/ring/shares.h"

namespace lockstep::peer {

class LineRate {
 public:
  // The least that a window has.
  LineRate(Duration time, std::uint64_t bytes) : least_time_(time), least_bytes_(bytes) {}

  // `all`: of this moment. `bytes`: the last write, which `all` includes. If the line has carried everything before
  // that write, the line has rested, and a window begins anew.
  void written(const io::Written& all, std::uint64_t bytes, Instant now) {
    const bool rested = all.outstanding <= bytes || now - last_ > kPause;
    last_ = now;
    if (rested) return begin(all, now);
    const std::uint64_t carried = all.acknowledged - began_with_;
    const Duration time = now - begin_;
    if (time < least_time_ || carried < least_bytes_) return;
    // In KiB a second; microseconds, so that no product overflows.
    const auto micros = std::max<std::uint64_t>(static_cast<std::uint64_t>(time.ns) / 1000, 1);
    const std::uint64_t rate = carried * 1'000'000 / 1024 / micros;
    best_.front() = std::max(best_.front(), static_cast<ring::Rate>(std::min<std::uint64_t>(rate, UINT32_MAX)));
    begin(all, now);
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

  // Left out: least_time_ and least_bytes_, which follow from the options.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(begin_, last_, began_with_, best_);
  }

 private:
  void begin(const io::Written& all, Instant now) {
    begin_ = now;
    began_with_ = all.acknowledged;
  }

  // A busy line accepts a write more often than this.
  static constexpr Duration kPause = seconds(2);
  static constexpr std::size_t kCalls = 4;

  Duration least_time_;
  std::uint64_t least_bytes_;
  Instant begin_;  // of the window
  Instant last_;
  std::uint64_t began_with_ = 0;           // bytes that were acknowledged at its begin
  std::array<ring::Rate, kCalls> best_{};  // the call that runs first
};

}  // namespace lockstep::peer
