// `lockstep sim run`: one seed, or many; of the swarm, or of a scenario.
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "sim/cli/command.h"
#include "sim/cli/many.h"
#include "sim/cli/mutants.h"
#include "sim/cli/report_json.h"
#include "sim/cli/stopwatch.h"
#include "sim/cli/usage.h"
#include "sim/workload/text.h"
#include "sim/world/world.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kMostTold = 20;         // failures
constexpr std::uint64_t kEnoughToTell = 100;  // seeds; the rule of three needs some

struct RunFlags {
  MutantFlag mutant;
  SwarmFlags swarm;
  std::string file;
  std::optional<std::uint64_t> seed;
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

// The plans of the seeds: of the swarm, of a scenario, or the one plan of a file.
class Plans {
 public:
  explicit Plans(const RunFlags& flags) : flags_(flags) {
    if (flags.file.empty()) return;
    read_ = read_plan_or_scenario(flags.file);
    if (std::holds_alternative<Plan>(*read_) && (flags.seed || !flags.seeds.empty())) {
      throw UsageError(flags.file +
                       " is a plan, which has its own seed: leave out --seed and --seeds, or change `seed =` in it");
    }
  }

  [[nodiscard]] Plan plan(std::uint64_t seed) const {
    if (!read_) return plan_of(seed, flags_.swarm.options());
    const auto* const scenario = std::get_if<Scenario>(&*read_);
    return scenario != nullptr ? plan_of(*scenario, seed) : std::get<Plan>(*read_);
  }

  [[nodiscard]] Report run(std::uint64_t seed, const WorldOptions& options = {}) const {
    return sim::run(plan(seed), options);
  }

 private:
  const RunFlags& flags_;
  std::optional<std::variant<Plan, Scenario>> read_;  // from the file, if there is one
};

// The last lines of a failure: how to make it small, if it can be, and the one command that repeats it.
void print_what_next(const RunFlags& flags, const Plans& plans, const Report& report) {
  const std::uint64_t seed = report.seed;
  const std::string what = flags.file.empty()                   ? fmt::format("--seed {}{}", seed, flags.swarm.text())
                           : flags.seed || !flags.seeds.empty() ? fmt::format("{} --seed {}", flags.file, seed)
                                                                : flags.file;
  const std::string same = what + flags.mutant.text();
  const bool goal = report.failure->promise == "goal";
  if (!goal || exceeded(plans.plan(seed).expect, report)) {
    fmt::print(stderr, "to make it small: lockstep sim shrink {}\n", same);
  }
  if (!goal) fmt::print(stderr, "what led to it:   lockstep sim explain {}\n", same);
  fmt::print(stderr, "lockstep sim run {} --trace\n", same);
}

int one_seed(const RunFlags& flags) {
  const Plans plans(flags);
  const std::uint64_t seed = flags.seed.value_or(0);
  if (!flags.plan.empty()) write_plan(plans.plan(seed), flags.plan);
  WorldOptions options;
  if (flags.trace) options.trace = print_line;
  options.trace_streams = flags.streams;
  options.until = flags.until;
  const Report report = plans.run(seed, options);
  if (flags.json) {
    fmt::print("{}\n", to_json(report).dump());
  } else {
    fmt::print("seed {}: {}, {}, {}, {:.3f} s simulated, hash {}\n", report.seed, counted(report.peers, "peer"),
               report.bytes_mode ? "bytes" : "tokens", counted(report.events, "event"),
               static_cast<double>(report.time_ns) * 1e-9, hex(report.hash));
    fmt::print("{}, {}, {}, {}, {}\n", counted(report.commits, "commit"), counted(report.aborts, "abort"),
               counted(report.views, "view"), counted(report.kills, "kill"), counted(report.lost_runs, "lost run"));
  }
  std::fflush(stdout);
  if (flags.until == 0) note_what_never_began(plans.plan(seed), report);
  if (!report.failure) return kExitPass;
  fmt::print(stderr, "{}\n", text_of(*report.failure));
  print_what_next(flags, plans, report);
  return exit_code_of(*report.failure);
}

int many_seeds(const RunFlags& flags) {
  const SeedRange range = seed_range(flags.seeds);
  ManyOptions options;
  options.first = range.first;
  options.end = range.end;
  options.jobs = flags.jobs;
  options.limit_s = flags.limit_s;
  options.keep_going = flags.keep_going;
  options.progress = !flags.json;
  const Stopwatch stopwatch;
  const Plans plans(flags);
  const ManyRuns runs = run_many(options, [&](std::uint64_t seed) { return plans.run(seed); });
  const double seconds = stopwatch.seconds();
  if (flags.json) {
    nlohmann::json json = to_json(runs.totals, seconds);
    json["failures"] = nlohmann::json::array();
    for (const Report& report : runs.failures) json["failures"].push_back(to_json(report));
    fmt::print("{}\n", json.dump(2));
  } else {
    print(runs.totals, seconds);
    if (runs.failures.empty() && runs.totals.seeds >= kEnoughToTell) {
      fmt::print("clean: {}\n", confidence_of(runs.totals));
    }
  }
  if (runs.failures.empty()) return kExitPass;
  std::fflush(stdout);
  for (std::size_t i = 0; i < runs.failures.size() && i < kMostTold; ++i) {
    fmt::print(stderr, "seed {}: {}\n", runs.failures[i].seed, text_of(*runs.failures[i].failure));
  }
  if (runs.failures.size() > kMostTold) fmt::print(stderr, "... and {} more\n", runs.failures.size() - kMostTold);
  print_what_next(flags, plans, runs.failures.front());
  return exit_code_of(*runs.failures.front().failure);
}

void refuse_without_effect(const CLI::App& command, const RunFlags& flags) {
  SwarmFlags::refuse_without_effect(command, !flags.file.empty());
  if (flags.seeds.empty()) {
    refuse(command, {"--jobs", "--time", "--keep-going"}, "without --seeds A..B");
  } else {
    refuse(command, {"--seed", "--trace", "--streams", "--write-plan", "--until"}, "with --seeds: it is for one seed");
  }
  if (!flags.trace) refuse(command, {"--streams"}, "without --trace");
}

}  // namespace

Run add_run(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("run", "runs one seed, or many");
  const auto flags = std::make_shared<RunFlags>();
  command->add_option("scenario", flags->file, "a scenario or a plan; without one, seeds make plans of their own")
      ->check(file_name());
  flags->swarm.declare(*command);
  command->add_option("--seed", flags->seed, "one seed (default: 0)")->check(whole_number());
  command->add_option("--seeds", flags->seeds, "A..B: A, A+1, ..., B-1");
  command->add_option("--jobs", flags->jobs, "processes")->check(CLI::Range(1U, kMostJobs));
  command->add_option("--time", flags->limit_s, "seconds after which no more seeds are started")
      ->check(real_number(0, kMostSeconds));
  command->add_option("--write-plan", flags->plan, "write the plan of --seed to this file")->check(file_name());
  command->add_option("--until", flags->until, "stop after so many events (--seed)")->check(whole_number());
  command->add_flag("--json", flags->json, "the same facts as JSON");
  command->add_flag("--trace", flags->trace, "print each event (--seed)");
  command->add_flag("--streams", flags->streams, "with --trace: also every stream");
  command->add_flag("--keep-going", flags->keep_going, "do not stop at the first failure (--seeds)");
  flags->mutant.declare(*command);
  return [flags, command] {
    refuse_without_effect(*command, *flags);
    flags->mutant.plant();
    return flags->seeds.empty() ? one_seed(*flags) : many_seeds(*flags);
  };
}

}  // namespace lockstep::sim
