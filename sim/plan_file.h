// A plan as a TOML text: everything that a run depends on, times in nanoseconds, one [[do]] for each fault, and what was
// expected as [expect].
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "sim/plan.h"

namespace lockstep::sim {

std::string to_text(const Plan& plan);

// What is not said keeps the value that a default Plan has. Errors name line and column, and what was meant.
Result<Plan> plan_from_text(std::string_view text);

}  // namespace lockstep::sim
