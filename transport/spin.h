// How whoever turns an engine waits for news while a call is in flight: it looks again and again for a moment, and only then goes
// to sleep. To be woken costs tens of microseconds, more in a virtual machine whose core was given away: longer than a small
// collective takes. A wait that was long tells that the next one will be, too (a long line, a peer that computes): then nothing is
// looked for in vain, until waits are short again.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>

#include "transport/clock.h"

namespace lockstep::transport {

// Not thread-safe: belongs to the thread that runs the io_context.
class Spin {
 public:
  // 0: always sleeps.
  explicit Spin(std::chrono::nanoseconds longest) : longest_(longest), pays_(longest.count() > 0) {}

  // Runs one handler of `io`, as its run_one_until() does. 0: `io` was stopped, or the time came.
  std::size_t run_one(asio::io_context& io, std::optional<Clock::time_point> until = std::nullopt) {
    const auto began = Clock::now();
    if (until && began >= *until) return 0;
    std::size_t ran = pays_ ? look(io, began + longest_) : 0;
    if (ran == 0) ran = until ? io.run_one_until(*until) : io.run_one();
    pays_ = Clock::now() - began < kWorthIt * longest_;
    return ran;
  }

  // Whether the next wait begins with looking.
  [[nodiscard]] bool pays() const { return pays_; }

 private:
  // A sleep that was so many times as long as we would have looked was short, too: a part of it was being woken.
  static constexpr int kWorthIt = 2;

  static std::size_t look(asio::io_context& io, Clock::time_point until) {
    do {
      if (const std::size_t ran = io.poll_one(); ran > 0) return ran;
      std::this_thread::yield();  // there may be more peers here than cores
    } while (Clock::now() < until && !io.stopped());
    return 0;
  }

  std::chrono::nanoseconds longest_;
  bool pays_;
};

}  // namespace lockstep::transport
