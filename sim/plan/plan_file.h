// A plan as a TOML text: everything that a run depends on, times in nanoseconds, one [[do]] for each fault, and
// expectations as [expect]. The text states the seed and each field that differs from a default Plan.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "sim/plan/plan.h"

namespace lockstep::sim {

std::string to_text(const Plan& plan);

// A field that the text leaves out has the value of a default Plan. An error names line and column, and suggests a
// correction.
Result<Plan> plan_from_text(std::string_view text);

}  // namespace lockstep::sim
