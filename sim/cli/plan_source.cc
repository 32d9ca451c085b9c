#include "sim/cli/plan_source.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "sim/cli/usage.h"

namespace lockstep::sim {

void PlanSource::declare(CLI::App& command) {
  command.add_option("plan", file, "a plan, as `run --write-plan` and `shrink` write it, or a scenario")
      ->check(file_name());
  command.add_option("--seed", seed, "what this seed expands to; with a scenario: makes of it")->check(whole_number());
  swarm.declare(command);
  mutant.declare(command);
}

Plan PlanSource::plan() const {
  if (!file.empty()) return read_either(file, seed);
  if (!seed) throw UsageError("give a plan or a scenario, or --seed N");
  return plan_of(*seed, swarm.options());
}

std::string PlanSource::text() const {
  return (file.empty() ? "" : " " + file) + (seed ? fmt::format(" --seed {}", *seed) : "") +
         (file.empty() ? swarm.text() : "") + mutant.text();
}

}  // namespace lockstep::sim
