// The end of a run: faults stop, the network heals, every call ends in time (L1, L4), every peer comes in and sees
// results, and then all leave.
#pragma once

#include <cstdint>
#include <functional>

#include "core/base/time.h"
#include "sim/checkers/complaint.h"
#include "sim/engine/dice.h"
#include "sim/engine/event.h"
#include "sim/plan/plan.h"
#include "sim/world/cast.h"
#include "sim/world/chronicle.h"
#include "sim/world/options.h"

namespace lockstep::sim {

class Ending {
 public:
  // `now`: of the world.
  Ending(const Plan& plan, const WorldOptions& options, Dice dice, const Instant& now, EventQueue& queue, Cast& cast,
         Chronicle& chronicle);

  // The last fault is over. Hosts without a process start one.
  using Overdue = std::function<Complaint(const Call&, Instant healed, Duration bound)>;
  void heal(const Overdue& overdue);
  // Judges the calls that are open, and ends the run when all are gone; queues itself (kGiveUp) otherwise.
  void watch(const Overdue& overdue);

  [[nodiscard]] bool healed() const { return healed_; }
  // The longest time that a call may take after the network healed.
  [[nodiscard]] Duration bound() const { return bound_; }
  // The step at which everybody leaves; far away until every peer is in and has seen results.
  [[nodiscard]] std::uint64_t last_step() const { return last_step_; }

 private:
  [[nodiscard]] bool namesakes_are_in(GangId gang) const;
  void settle();
  void stop_waiting();
  void end_when_all_are_gone();

  const Plan& plan_;
  const WorldOptions& options_;
  Dice dice_;
  const Instant& now_;
  EventQueue& queue_;
  Cast& cast_;
  Chronicle& chronicle_;
  Duration bound_;
  bool healed_ = false;
  Instant healed_at_;
  bool settled_ = false;  // every peer was in, and had seen results
  Instant all_gone_at_{INT64_MAX};
  std::uint64_t last_step_ = UINT64_MAX;
};

}  // namespace lockstep::sim
