// The plan of a run to which nothing happens.
#pragma once

#include <cstdint>

#include "sim/plan/plan.h"

namespace lockstep::sim {

inline Plan calm_plan(std::uint32_t peers = 2) {
  PlanOptions options;
  options.peers = peers;
  options.calm = true;
  return plan_of(1, options);
}

}  // namespace lockstep::sim
