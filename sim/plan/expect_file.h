// Reads [expect], of scenarios and of plans.
#pragma once

#include <optional>

#include "sim/plan/expect.h"
#include "sim/words/toml_reader.h"

namespace lockstep::sim {

// Returns the error in the text.
std::optional<Error> read_expectations(const toml::node& node, Expectations& expected);

}  // namespace lockstep::sim
