// The kernels of all processes: when a job runs and how long it takes, and the nemesis that makes kernels wrong.
#pragma once

#include <cstdint>

#include "core/base/time.h"
#include "core/kernels/job.h"
#include "sim/engine/dice.h"
#include "sim/engine/event.h"
#include "sim/plan/plan.h"
#include "sim/world/cast.h"
#include "sim/world/checkers.h"
#include "sim/world/chronicle.h"

namespace lockstep::sim {

class Kernels {
 public:
  // `now`: of the world.
  Kernels(const Plan& plan, Dice dice, const Instant& now, EventQueue& queue, Cast& cast, Checkers& checkers,
          Chronicle& chronicle)
      : plan_(plan), dice_(dice), now_(now), queue_(queue), cast_(cast), checkers_(checkers), chronicle_(chronicle) {}

  // Queues kJobDone, and before that, at times, kJobRuns.
  void start(SimProcess& process, const KernelJob& job);
  // The job of this slot does its work, unless it has done so.
  void run_now(SimProcess& process, std::uint64_t slot);

 private:
  void miscompute(SimProcess& process, KernelRun& job);

  const Plan& plan_;
  Dice dice_;
  const Instant& now_;
  EventQueue& queue_;
  Cast& cast_;
  Checkers& checkers_;
  Chronicle& chronicle_;
};

}  // namespace lockstep::sim
