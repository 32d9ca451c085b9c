// The plan that a command is about: a file, or what a seed expands to, and the bug that is planted first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/cli/command.h"
#include "sim/cli/mutants.h"
#include "sim/plan/plan.h"

namespace lockstep::sim {

struct PlanSource {
  MutantFlag mutant;
  SwarmFlags swarm;
  std::optional<std::uint64_t> seed;
  std::string file;

  void declare(CLI::App& command);
  [[nodiscard]] Plan plan() const;         // throws UsageError
  [[nodiscard]] std::string text() const;  // as it was typed, with a space before
};

}  // namespace lockstep::sim
