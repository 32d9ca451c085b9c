// The time limits of calls after faults have stopped, for L1 to L4.
#pragma once

#include "core/base/time.h"
#include "sim/plan/plan.h"

namespace lockstep::sim {

// A round trip on the slowest link, with the delay that busy drivers, split messages and late returns of memory add.
Duration round_trip_of(const Plan& plan);

// The time that the collectives of a step take one after the other on the slowest link.
Duration time_of_step(const Plan& plan);

// 250 heartbeats (every silence is noticed after 6), 4 of the program's own time-outs, and 4 times as long as the
// collectives of a step take one after the other on the slowest link. Newcomers wait for the next admit: with more
// than 4 steps between two of them, so many steps.
Duration liveness_bound(const Plan& plan);

}  // namespace lockstep::sim
