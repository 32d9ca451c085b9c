// A law that must hold for every plan. sim/search/shrink.h makes a plan that breaks the law small, and the report lets
// a person continue from there.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sim/search/shrink.h"

namespace lockstep::sim {

struct Breach {
  Broken broken;
  std::string text;  // "S2 broken at 0.004518 s, event 90: ..."
};

// Nothing if the law holds for this plan.
using PlanLaw = std::function<std::optional<Breach>(const Plan&)>;

// A run that takes longer counts as endless: some step of core never returns.
inline constexpr double kRunLimit = 60;  // seconds
Breach no_end();

// Runs the plan in a separate process: a failed assertion is a breach, too.
std::optional<Breach> breaks_a_promise(const Plan& plan);

// Empty if the law holds. Otherwise: what the smallest plan breaks, the command that repeats it, and its text. The plan
// is in a file in the folder of the current test.
std::string objection_to(const Plan& plan, const PlanLaw& law, std::uint32_t max_runs = 300);

}  // namespace lockstep::sim
