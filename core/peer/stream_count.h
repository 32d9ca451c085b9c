// How many streams to each neighbour fill this peer's line (rule 60 of docs/protocol.md). Packets that a line loses at
// random keep a stream slow, whatever the line could carry; many such streams fill it. So this peer tries twice as many
// while packets are lost, and keeps them if the line carries more with them. A line that loses nothing stays as it is:
// one stream fills it. The number holds for all later calls and views.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/base/mutant.h"
#include "core/base/time.h"
#include "core/peer/busy_window.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

class StreamCount {
 public:
  // As many as these to begin with, and as these at the most: `most` >= `first`. `window` and `bytes`:
  // the least in which the line is measured.
  StreamCount(std::uint16_t first, std::uint16_t most, Duration window, std::uint64_t bytes)
      : most_(most),
        first_pause_(window * kFirstPause),
        last_pause_(window * kLastPause),
        now_(first),
        pause_(first_pause_),
        window_(window, bytes) {}

  [[nodiscard]] std::uint16_t wanted() const { return now_; }
  // Whether these are twice as many as before, and it is not known yet whether that pays.
  [[nodiscard]] bool on_trial() const { return before_ != 0; }

  // See BusyWindow::written().
  void written(const io::Written& all, std::uint64_t bytes, Instant now) {
    if (now_ >= most_ && !on_trial() && !mutant(Mutant::kStreamsUnlimited)) return;
    if (const auto carried = window_.written(all, bytes, now)) take(*carried, now);
  }

  // Left out: most_, first_pause_ and last_pause_, which follow from the options.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(now_, before_, rate_before_, warming_, windows_, carried_, next_try_, pause_, window_);
  }

 private:
  void take(const BusyWindow::Carried& carried, Instant now) {
    if (warming_ > 0) {
      warming_ -= 1;
      return;
    }
    windows_ += 1;
    carried_.bytes += carried.bytes;
    carried_.lost += carried.lost;
    carried_.time = carried_.time + carried.time;
    if (windows_ < kWindows) return;
    windows_ = 0;
    decide(std::exchange(carried_, {}), now);
  }

  void decide(const BusyWindow::Carried& carried, Instant now) {
    if (on_trial()) {
      const bool pays = carried.rate() * kPercent >= rate_before_ * kLeastGain;
      if (pays) {
        pause_ = first_pause_;
      } else {
        now_ = before_;
        next_try_ = now + pause_;
        pause_ = std::min(pause_ * 2, last_pause_);
      }
      before_ = 0;
    }
    const std::uint16_t most = mutant(Mutant::kStreamsUnlimited) ? kMaxStripes : most_;
    if (carried.lost == 0 || now < next_try_ || now_ >= most) return;
    before_ = now_;
    rate_before_ = carried.rate();
    now_ = static_cast<std::uint16_t>(std::min<std::uint32_t>(std::uint32_t{now_} * 2, most));
    warming_ = kWarmingWindows;
  }

  // New streams are slow until they have found their rate.
  static constexpr std::uint32_t kWarmingWindows = 3;
  // Rates of a single window are too far from each other.
  static constexpr std::uint32_t kWindows = 3;
  // What twice as many streams must carry, in percent of what was carried before: less is noise, or was taken from
  // others on the same line.
  static constexpr std::uint64_t kPercent = 100;
  static constexpr std::uint64_t kLeastGain = 120;
  // Until the next attempt, when one has not paid, in windows.
  static constexpr std::int64_t kFirstPause = 16;
  static constexpr std::int64_t kLastPause = 1024;

  std::uint16_t most_;
  Duration first_pause_;
  Duration last_pause_;
  std::uint16_t now_;
  std::uint16_t before_ = 0;  // while more are tried: how many there were; else 0
  std::uint64_t rate_before_ = 0;
  std::uint32_t warming_ = 0;  // windows that do not count yet
  std::uint32_t windows_ = 0;  // that make up the next decision, so far
  BusyWindow::Carried carried_;
  Instant next_try_;
  Duration pause_;
  BusyWindow window_;
};

}  // namespace lockstep::peer
