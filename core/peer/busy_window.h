// Windows of time in which this peer's line was always busy: something was on its way to other hosts. Each window tells
// how many bytes the line has carried, and how many packets it has lost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/base/time.h"
#include "core/io/stream.h"

namespace lockstep::peer {

class BusyWindow {
 public:
  struct Carried {
    std::uint64_t bytes = 0;  // that the other hosts have acknowledged
    std::uint64_t lost = 0;   // packets that were sent again
    Duration time;

    template <typename Archive>
    void archive(Archive& a) {
      a.all(bytes, lost, time);
    }
    // In KiB a second; microseconds, so that no product overflows.
    [[nodiscard]] std::uint64_t rate() const {
      return bytes * 1'000'000 / 1024 / std::max<std::uint64_t>(static_cast<std::uint64_t>(time.ns) / 1000, 1);
    }
  };

  // The least that a window has.
  BusyWindow(Duration time, std::uint64_t bytes) : least_time_(time), least_bytes_(bytes) {}

  // `all`: of this moment. `bytes`: the last write, which `all` includes. Returns a window that ends now. If the line
  // has carried everything before that write, the line has rested, and a window begins anew.
  std::optional<Carried> written(const io::Written& all, std::uint64_t bytes, Instant now) {
    const bool rested = all.outstanding <= bytes || now - last_ > kPause;
    last_ = now;
    if (rested) {
      begin(all, now);
      return std::nullopt;
    }
    const Carried carried{all.acknowledged - bytes_before_, all.lost - lost_before_, now - begin_};
    if (carried.time < least_time_ || carried.bytes < least_bytes_) return std::nullopt;
    begin(all, now);
    return carried;
  }

  // Left out: least_time_ and least_bytes_, which follow from the options.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(begin_, last_, bytes_before_, lost_before_);
  }

 private:
  void begin(const io::Written& all, Instant now) {
    begin_ = now;
    bytes_before_ = all.acknowledged;
    lost_before_ = all.lost;
  }

  // A busy line accepts a write more often than this.
  static constexpr Duration kPause = seconds(2);

  Duration least_time_;
  std::uint64_t least_bytes_;
  Instant begin_;
  Instant last_;
  std::uint64_t bytes_before_ = 0;  // that were acknowledged when it began
  std::uint64_t lost_before_ = 0;
};

}  // namespace lockstep::peer
