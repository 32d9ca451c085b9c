// A history as JSON (version 1): for people's tools, and for the page with the timeline. Times are nanoseconds; moments
// are named by their place in "moments"; -1 and null mean "never" and "none".
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sim/explain/history.h"

namespace lockstep::sim {

// `slice`: the causal slice of the failure; `replay`: the command that repeats the run.
nlohmann::json to_json(const History& history, const std::vector<MomentId>& slice, const std::string& replay);

}  // namespace lockstep::sim
