// What the commands that measure collectives take alike.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/lab/wan/measurement.h"
#include "tests/lab/wan/topology.h"

namespace CLI {
class App;
}  // namespace CLI

namespace lockstep::wan {

struct BenchFlags {
  std::vector<std::uint64_t> sizes = {8U << 20U, 64U << 20U};  // of the tensor or the state, in bytes
  BenchOptions bench;

  void declare(CLI::App& command);
};

// What every report as JSON begins with. `path`: of the topology.
nlohmann::json json_head(const std::string& path, const Topology& topology);

// Throws Failure.
void needs_two_peers(const Topology& topology, const std::string& path);

}  // namespace lockstep::wan
