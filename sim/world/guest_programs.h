// Programs from outside: they start, are woken up, stand still and die on hosts, and give tensors of their own to
// calls.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/ring/request.h"
#include "sim/engine/event.h"
#include "sim/network/network.h"
#include "sim/plan/plan.h"
#include "sim/world/cast.h"
#include "sim/world/chronicle.h"
#include "sim/world/options.h"

namespace lockstep::sim {

// The bytes of all inputs of a call, residuals among them.
std::uint64_t input_bytes(const ring::Request& request);

class GuestPrograms {
 public:
  // The wake-up that asks a program to leave.
  static constexpr std::uint64_t kIsToLeave = 0;

  // `now`: of the world.
  GuestPrograms(const WorldOptions& options, const Instant& now, EventQueue& queue, Network& network, Cast& cast,
                Chronicle& chronicle)
      : options_(options), now_(now), queue_(queue), network_(network), cast_(cast), chronicle_(chronicle) {}

  void start(std::uint32_t host);
  void die(std::uint32_t host);
  // Ends the stall of a program and delivers the wake-ups that it missed. `serial`: of the program that stalled.
  void go_on(std::uint32_t host, std::uint64_t serial);
  void wake(std::uint32_t host, std::uint64_t what, Duration after);
  void on_event(const Event& event);  // kGuest

  // A program gives memory to a call: keeps what checkers judge by, and lends the memory.
  void give(SimProcess& process, Call& call, const ring::Request& request, std::vector<BufferId> buffers);

  // ---- whether anything can still happen ----
  // A program will start again on a host (`one_more`), or has started.
  void returns(bool one_more) { one_more ? ++returning_ : --returning_; }
  [[nodiscard]] std::uint32_t returning() const { return returning_; }
  // Something has happened that can make a program go on.
  void disturb() { quiet_since_ = now_; }
  [[nodiscard]] Instant quiet_since() const { return quiet_since_; }

 private:
  static void forget_old_inputs(SimProcess& process);

  const WorldOptions& options_;
  const Instant& now_;
  EventQueue& queue_;
  Network& network_;
  Cast& cast_;
  Chronicle& chronicle_;
  std::uint64_t begun_ = 0;      // programs
  std::uint32_t returning_ = 0;  // programs
  Instant quiet_since_;
};

}  // namespace lockstep::sim
