// The timers of machines: one event for each machine, as a rule, which comes somewhat late.
#pragma once

#include "core/base/time.h"
#include "sim/engine/dice.h"
#include "sim/engine/event.h"
#include "sim/plan/plan.h"
#include "sim/world/cast.h"

namespace lockstep::sim {

// When the machine of the process wants its next Timer.
Instant deadline_of(const SimProcess& process);

class Timers {
 public:
  // `now`: of the world.
  Timers(const Plan& plan, Dice dice, const Instant& now, EventQueue& queue)
      : plan_(plan), dice_(dice), now_(now), queue_(queue) {}

  // Queues kTimer when the deadline is earlier than that of the timer that is set. A timer that comes before the
  // deadline is set again.
  void arm(SimProcess& process);

 private:
  const Plan& plan_;
  Dice dice_;
  const Instant& now_;
  EventQueue& queue_;
};

}  // namespace lockstep::sim
