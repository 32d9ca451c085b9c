// Reads [expect], of scenarios and of plans.
#pragma once

#include <optional>

#include "sim/expect.h"
#include "sim/toml_reader.h"

namespace lockstep::sim {

// Gives what is wrong with it.
std::optional<Error> read_expectations(const toml::node& node, Expectations& expected);

}  // namespace lockstep::sim
