// What the lines of a network have carried and lost, as text and as JSON.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tests/wan/network.h"
#include "tests/wan/topology.h"

namespace lockstep::wan {

// A table of the lines that have carried anything.
std::string statistics_text(const Topology& topology, const Network& network);
nlohmann::json statistics_json(const Topology& topology, const Network& network);

}  // namespace lockstep::wan
