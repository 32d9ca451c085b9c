// `lockstep sim run`: one seed, or many.
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "sim/cli/command.h"
#include "sim/cli/many.h"
#include "sim/cli/mutants.h"
#include "sim/cli/report_json.h"
#include "sim/text.h"
#include "sim/world.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kMostTold = 20;  // failures

struct Flags {
  MutantFlag mutant;
  SwarmFlags swarm;
  std::uint64_t seed = 0;
  std::string seeds;
  std::uint32_t jobs = 1;
  double limit_s = 0;
  std::uint64_t until = 0;
  std::string plan;
  bool json = false;
  bool trace = false;
  bool streams = false;
  bool keep_going = false;
};

// The last lines of a failure: how to make it small, and the one command that repeats it.
void print_what_next(const Flags& flags, std::uint64_t seed) {
  const std::string same = fmt::format("--seed {}{}{}", seed, flags.swarm.text(), flags.mutant.text());
  fmt::print(stderr, "to make it small: lockstep sim shrink {0}\nlockstep sim run {0} --trace\n", same);
}

int one_seed(const Flags& flags) {
  const Plan plan = plan_of(flags.seed, flags.swarm.options());
  if (!flags.plan.empty()) write_plan(plan, flags.plan);
  WorldOptions options;
  if (flags.trace) options.trace = print_line;
  options.trace_streams = flags.streams;
  options.until = flags.until;
  const Report report = run(plan, options);
  if (flags.json) {
    fmt::print("{}\n", to_json(report).dump());
  } else {
    fmt::print("seed {}: {} peers, {}, {} events, {:.3f} s simulated, hash {}\n", report.seed, report.peers,
               report.bytes_mode ? "bytes" : "tokens", report.events, static_cast<double>(report.time_ns) * 1e-9,
               hex(report.hash));
    fmt::print("{} commits, {} aborts, {} views, {} kills, {} lost runs\n", report.commits, report.aborts, report.views,
               report.kills, report.lost_runs);
  }
  if (!report.failure) return kExitPass;
  std::fflush(stdout);
  fmt::print(stderr, "{}\n", text_of(*report.failure));
  print_what_next(flags, flags.seed);
  return exit_code_of(*report.failure);
}

int many_seeds(const Flags& flags) {
  const SeedRange range = seed_range(flags.seeds);
  ManyOptions options;
  options.first = range.first;
  options.end = range.end;
  options.jobs = flags.jobs;
  options.limit_s = flags.limit_s;
  options.keep_going = flags.keep_going;
  options.progress = !flags.json;
  const auto began = std::chrono::steady_clock::now();
  const ManyRuns runs =
      run_many(options, [&](std::uint64_t seed) { return run(plan_of(seed, flags.swarm.options())); });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (flags.json) {
    nlohmann::json json = to_json(runs.totals, seconds);
    json["failures"] = nlohmann::json::array();
    for (const Report& report : runs.failures) json["failures"].push_back(to_json(report));
    fmt::print("{}\n", json.dump(2));
  } else {
    print(runs.totals, seconds);
    if (runs.failures.empty() && runs.totals.seeds > 0) {
      fmt::print("clean: with 95 % confidence fewer than {:.4f} % of seeds fail\n",
                 300.0 / static_cast<double>(runs.totals.seeds));
    }
  }
  if (runs.failures.empty()) return kExitPass;
  std::fflush(stdout);
  for (std::size_t i = 0; i < runs.failures.size() && i < kMostTold; ++i) {
    fmt::print(stderr, "seed {}: {}\n", runs.failures[i].seed, text_of(*runs.failures[i].failure));
  }
  if (runs.failures.size() > kMostTold) fmt::print(stderr, "... and {} more\n", runs.failures.size() - kMostTold);
  print_what_next(flags, runs.failures.front().seed);
  return exit_code_of(*runs.failures.front().failure);
}

}  // namespace

Run add_run(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("run", "one seed, or many");
  const auto flags = std::make_shared<Flags>();
  flags->swarm.declare(*command);
  command->add_option("--seed", flags->seed, "one seed");
  command->add_option("--seeds", flags->seeds, "A..B: A, A+1, ..., B-1");
  command->add_option("--jobs", flags->jobs, "processes")->check(CLI::Range(1, 256));
  command->add_option("--time", flags->limit_s, "seconds after which no more seeds are started")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--write-plan", flags->plan, "write the plan of --seed to this file");
  command->add_option("--until", flags->until, "stop after so many events (--seed)");
  command->add_flag("--json", flags->json, "the same facts as JSON");
  command->add_flag("--trace", flags->trace, "a line for what happens (--seed)");
  command->add_flag("--streams", flags->streams, "with --trace: also every stream");
  command->add_flag("--keep-going", flags->keep_going, "do not stop at the first failure (--seeds)");
  flags->mutant.declare(*command);
  return [flags] {
    flags->mutant.plant();
    return flags->seeds.empty() ? one_seed(*flags) : many_seeds(*flags);
  };
}

}  // namespace lockstep::sim
