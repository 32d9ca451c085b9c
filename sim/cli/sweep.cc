// `lockstep sim sweep`: small plans, each run once with every fault at every event.
#include "sim/search/sweep.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "sim/cli/command.h"
#include "sim/cli/many.h"
#include "sim/cli/mutants.h"
#include "sim/cli/report_json.h"
#include "sim/cli/stopwatch.h"
#include "sim/world/world.h"

namespace lockstep::sim {
namespace {

struct SweepFlags {
  MutantFlag mutant;
  std::vector<std::string> files = {"sim/sweeps"};
  std::uint64_t stride = 1;
  std::uint32_t jobs = 1;
  bool json = false;
  bool keep_going = false;
};

// The plan without further faults is clean, or there is nothing to sweep.
Sweep sweep_of(const std::string& file, const SweepFlags& flags) {
  Plan plan = read_either(file, std::nullopt);
  plan.expect = {};
  const Report report = run(plan);
  if (report.failure) throw UsageError(file + " breaks " + report.failure->promise + " by itself: run it first");
  return {plan, report.healed_at_event, flags.stride};
}

int sweep_all(const SweepFlags& flags) {
  int code = kExitPass;
  nlohmann::json all = nlohmann::json::array();
  std::uint64_t runs = 0;
  for (const std::string& file : toml_files_in(flags.files)) {
    const Stopwatch stopwatch;
    const Sweep sweep = sweep_of(file, flags);
    const std::string name = std::filesystem::path(file).stem().string();
    ManyOptions options;
    options.end = sweep.size();
    options.jobs = flags.jobs;
    options.keep_going = flags.keep_going;
    options.progress = !flags.json;
    options.unit = "runs of " + name;
    const ManyRuns many = run_many(options, [&](std::uint64_t index) {
      Report report = run(sweep.plan(index));
      report.seed = index;
      return report;
    });
    const double seconds = stopwatch.seconds();
    runs += many.totals.seeds;
    if (flags.json) {
      nlohmann::json json = to_json(many.totals, seconds);
      json["name"] = name;
      all.push_back(json);
    } else {
      fmt::print("{:24} {:5} moments x {:3} faults: {:7} runs, {:7} commits, {:6} aborts, {:6} retries, {:.1f} s: {}\n",
                 name, sweep.moments(), sweep.faults(), many.totals.seeds, many.totals.commits, many.totals.aborts,
                 many.totals.retries, seconds, many.failures.empty() ? "clean" : "FAILED");
    }
    std::fflush(stdout);
    for (const Report& report : many.failures) {
      const std::string plan = fmt::format("sweep-{}-{}.toml", name, report.seed);
      write_plan(sweep.plan(report.seed), plan);
      fmt::print(stderr, "{}: {}: {}\nto make it small: lockstep sim shrink {}\nlockstep sim replay {}\n", name,
                 sweep.name(report.seed), text_of(*report.failure), plan, plan);
      if (code == kExitPass) code = exit_code_of(*report.failure);
    }
    if (code != kExitPass && !flags.keep_going) break;
  }
  if (flags.json) fmt::print("{}\n", all.dump(2));
  if (!flags.json) fmt::print("{} runs: {}\n", runs, code == kExitPass ? "clean" : "FAILED");
  return code;
}

}  // namespace

Run add_sweep(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("sweep", "small plans, with every fault at every event");
  const auto flags = std::make_shared<SweepFlags>();
  command->add_option("files", flags->files, "plans or scenarios, or folders of them")->capture_default_str();
  command->add_option("--stride", flags->stride, "faults begin at every so many events")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}))
      ->capture_default_str();
  command->add_option("--jobs", flags->jobs, "processes at once")->check(CLI::Range(1U, kMostJobs));
  command->add_flag("--json", flags->json, "the totals as JSON");
  command->add_flag("--keep-going", flags->keep_going, "do not stop at the first failure");
  flags->mutant.declare(*command);
  return [flags] {
    flags->mutant.plant();
    return sweep_all(*flags);
  };
}

}  // namespace lockstep::sim
