// How the owner of the loop waits while a call is in flight: it polls for a moment before it sleeps. Waking up takes
// tens of microseconds, more in a virtual machine whose core was given away: longer than a small collective. After a
// long wait the next wait is likely to be long, too (a long line, or a peer that computes). Then polling is skipped
// until waits are short again. Polling is also skipped for a while when other programs want the core.
#pragma once

#include <algorithm>
#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>
#include <utility>

#include "transport/clock.h"

namespace lockstep::transport {

// Remembers whether other programs want the core of a thread that polls. Between two polls the thread yields. Then a
// program that computes keeps the core for its time slice, and a message that arrives meanwhile waits. A thread that
// sleeps gets the core as soon as a message arrives. Not thread-safe, like Spin.
class Crowd {
 public:
  // A yield took from `before` to `after`.
  void yielded(Clock::time_point before, Clock::time_point after) {
    if (after - before < kSlice) return;
    const bool was_calm = after - until_ > kForgetsAfter * pause_;
    pause_ = was_calm ? kFirstPause : std::min(2 * pause_, kLongestPause);
    until_ = after + pause_;
  }

  [[nodiscard]] bool wants_the_core(Clock::time_point now) const { return now < until_; }

 private:
  // Linux gives a program a slice of 0.7 ms or more. Peers that share the core keep it for less: they poll, too.
  static constexpr std::chrono::microseconds kSlice{500};
  // Polling is tried again after each pause, which costs a slice of up to 4 ms while the core is crowded.
  static constexpr std::chrono::milliseconds kFirstPause{20};
  static constexpr std::chrono::milliseconds kLongestPause{1000};
  static constexpr int kForgetsAfter = 4;  // in pauses

  Clock::time_point until_{};
  std::chrono::milliseconds pause_{0};
};

// Not thread-safe: used by the thread that runs the io_context only.
class Spin {
 public:
  // `longest`: 0: never polls. `crowd` outlives the object.
  Spin(std::chrono::nanoseconds longest, Crowd& crowd) : longest_(longest), crowd_(crowd), pays_(longest.count() > 0) {}

  // Runs one handler of `io`, like its run_one_until(). Returns 0 if `io` was stopped or the time has passed.
  std::size_t run_one(asio::io_context& io, std::optional<Clock::time_point> until = std::nullopt) {
    const auto began = Clock::now();
    if (until && began >= *until) return 0;
    std::size_t ran = pays_ && !crowd_.wants_the_core(began) ? look(io, began) : 0;
    if (ran == 0) ran = until ? io.run_one_until(*until) : io.run_one();
    pays_ = Clock::now() - began < kWorthIt * longest_;
    return ran;
  }

  // Whether the next wait begins with polling.
  [[nodiscard]] bool pays() const { return pays_; }

 private:
  // A sleep of up to this many times `longest` counts as short: a part of it was the time to wake up.
  static constexpr int kWorthIt = 2;

  // The time after another thread may have had the core: several peers may share the cores.
  static Clock::time_point yielded() {
    std::this_thread::yield();
    return Clock::now();
  }

  std::size_t look(asio::io_context& io, Clock::time_point began) {
    const auto until = began + longest_;
    for (auto now = began; now < until && !io.stopped();) {
      if (const std::size_t ran = io.poll_one(); ran > 0) return ran;
      const auto before = std::exchange(now, yielded());
      crowd_.yielded(before, now);
    }
    return 0;
  }

  std::chrono::nanoseconds longest_;
  Crowd& crowd_;
  bool pays_;
};

}  // namespace lockstep::transport
