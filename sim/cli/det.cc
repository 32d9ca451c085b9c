// `lockstep sim det`: every seed in two processes, and backwards in one: all must give the same hashes.
#include <fmt/core.h>

#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "sim/cli/command.h"
#include "sim/cli/many.h"
#include "sim/cli/mutants.h"
#include "sim/cli/usage.h"
#include "sim/workload/text.h"
#include "sim/world/world.h"

namespace lockstep::sim {
namespace {

struct DetFlags {
  MutantFlag mutant;
  SwarmFlags swarm;
  std::uint64_t first = 0;
  std::uint64_t count = 200;
  bool trace = false;
};

int det(const DetFlags& flags) {
  const auto one = [&](std::uint64_t seed) { return run(plan_of(seed, flags.swarm.options())); };
  if (flags.first > kEndOfSeeds || flags.count > kEndOfSeeds - flags.first) {
    throw UsageError(fmt::format("--first and --seeds: the sum of both must be at most {}", kEndOfSeeds));
  }
  ManyOptions options;
  options.first = flags.first;
  options.end = flags.first + flags.count;
  options.jobs = 2;
  options.keep_going = true;
  options.hashes = true;
  options.progress = true;
  const ManyRuns forth = run_many(options, one);
  int code = kExitPass;
  for (auto it = forth.hashes.rbegin(); it != forth.hashes.rend(); ++it) {
    const Report again = one(it->first);
    if (again.hash == it->second) continue;
    fmt::print(stderr, "seed {}: {} in one process, {} in another\n", it->first, hex(it->second), hex(again.hash));
    code = kExitNondeterminism;
  }
  if (flags.trace) {
    for (const auto& entry : forth.hashes) fmt::print("{} {}\n", entry.first, hex(entry.second));
  }
  fmt::print("{} seeds {}\n", forth.totals.seeds, hex(forth.totals.hash));
  for (const Report& report : forth.failures) {
    if (report.failure->promise == "crash") code = kExitCrash;
  }
  return code;
}

}  // namespace

Run add_det(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("det", "determinism: one hash of many seeds");
  const auto flags = std::make_shared<DetFlags>();
  flags->swarm.declare(*command);
  command->add_option("--seeds", flags->count, "how many")
      ->check(whole_number())
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--first", flags->first, "the first one")->check(whole_number())->capture_default_str();
  command->add_flag("--trace", flags->trace, "also the hash of every seed");
  flags->mutant.declare(*command);
  return [flags, command] {
    SwarmFlags::refuse_without_effect(*command, false);
    flags->mutant.plant();
    return det(*flags);
  };
}

}  // namespace lockstep::sim
