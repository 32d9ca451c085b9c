// What must hold for every plan. One that breaks it is made small by sim/shrink.h, and told so that a person can go on
// from there.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sim/shrink.h"

namespace lockstep::sim {

struct Breach {
  Broken broken;
  std::string text;  // "S2 broken at 0.004518 s, event 90: ..."
};

// Nothing: it holds for this plan.
using PlanLaw = std::function<std::optional<Breach>(const Plan&)>;

// A run that takes longer is endless: some step of core is.
inline constexpr double kRunLimit = 60;  // seconds
Breach no_end();

// Runs the plan in a process of its own: an assertion is a breach, too.
std::optional<Breach> breaks_a_promise(const Plan& plan);

// Empty: the law holds. Else what the smallest plan breaks, the command that runs it again, and its text. It lies in a
// file in the folder of the test that runs now.
std::string objection_to(const Plan& plan, const PlanLaw& law, std::uint32_t max_runs = 300);

}  // namespace lockstep::sim
