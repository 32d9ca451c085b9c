#include "sim/cli/plan_source.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

namespace lockstep::sim {

void PlanSource::declare(CLI::App& command) {
  command.add_option("plan", file, "a plan, as `run --write-plan` and `shrink` write it");
  command.add_option("--seed", seed, "or what this seed expands to");
  swarm.declare(command);
  mutant.declare(command);
}

Plan PlanSource::plan() const {
  if (seed.has_value() != file.empty()) {
    throw UsageError(seed ? "a plan and --seed were given: one of them is enough" : "give a plan, or --seed N");
  }
  return seed ? plan_of(*seed, swarm.options()) : read_plan(file);
}

std::string PlanSource::text() const {
  return (seed ? fmt::format(" --seed {}{}", *seed, swarm.text()) : " " + file) + mutant.text();
}

}  // namespace lockstep::sim
