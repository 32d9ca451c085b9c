// How the owner of the loop waits while a call is in flight: it polls for a moment before it sleeps. Waking up takes
// tens of microseconds, more in a virtual machine whose core was given away: longer than a small collective. After a
// long wait the next wait is likely to be long, too (a long line, or a peer that computes). Then polling is skipped
// until waits are short again.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>

#include "transport/clock.h"

namespace lockstep::transport {

// Not thread-safe: used by the thread that runs the io_context only.
class Spin {
 public:
  // 0: never polls.
  explicit Spin(std::chrono::nanoseconds longest) : longest_(longest), pays_(longest.count() > 0) {}

  // Runs one handler of `io`, like its run_one_until(). Returns 0 if `io` was stopped or the time has passed.
  std::size_t run_one(asio::io_context& io, std::optional<Clock::time_point> until = std::nullopt) {
    const auto began = Clock::now();
    if (until && began >= *until) return 0;
    std::size_t ran = pays_ ? look(io, began + longest_) : 0;
    if (ran == 0) ran = until ? io.run_one_until(*until) : io.run_one();
    pays_ = Clock::now() - began < kWorthIt * longest_;
    return ran;
  }

  // Whether the next wait begins with polling.
  [[nodiscard]] bool pays() const { return pays_; }

 private:
  // A sleep of up to this many times `longest` counts as short: a part of it was the time to wake up.
  static constexpr int kWorthIt = 2;

  static std::size_t look(asio::io_context& io, Clock::time_point until) {
    do {
      if (const std::size_t ran = io.poll_one(); ran > 0) return ran;
      std::this_thread::yield();  // several peers may share the cores
    } while (Clock::now() < until && !io.stopped());
    return 0;
  }

  std::chrono::nanoseconds longest_;
  bool pays_;
};

}  // namespace lockstep::transport
