// What the lines of a network have carried and lost, and which connections were reset, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tests/lab/wan/forwarder.h"
#include "tests/lab/wan/network.h"
#include "tests/lab/wan/topology.h"

namespace lockstep::wan {

// A table of the lines that have carried anything.
std::string statistics_text(const Topology& topology, const Network& network);
nlohmann::json statistics_json(const Topology& topology, const Network& network);

// A table, empty where none was asked for.
std::string resets_text(const std::vector<Forwarder::Reset>& resets);
nlohmann::json resets_json(const std::vector<Forwarder::Reset>& resets);

}  // namespace lockstep::wan
