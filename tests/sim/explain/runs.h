// Runs that are looked at: a Historian beside a World, on plans that are the same on every machine.
#pragma once

#include <algorithm>

#include "sim/explain/historian.h"
#include "sim/world/world.h"
#include "tests/sim/calm_plan.h"

namespace lockstep::sim {

inline History history_of(const Plan& plan, Report* report = nullptr) {
  Historian historian(plan);
  WorldOptions options;
  options.witness = &historian;
  const Report seen = run(plan, options);
  if (report != nullptr) *report = seen;
  return historian.finish();
}

// The first run of the swarm in which this begins.
inline History history_with(Fault fault, Plan* of = nullptr) {
  for (std::uint64_t seed = 0;; ++seed) {
    PlanOptions options;
    options.peers = 4;
    const Plan plan = plan_of(seed, options);
    const bool may =
        std::any_of(plan.entries.begin(), plan.entries.end(), [&](const Entry& entry) { return entry.fault == fault; });
    if (!may) continue;
    History history = history_of(plan);
    const bool does = std::any_of(history.faults.begin(), history.faults.end(),
                                  [&](const FaultSpan& span) { return span.name == name_of(fault); });
    if (!does) continue;
    if (of != nullptr) *of = plan;
    return history;
  }
}

}  // namespace lockstep::sim
