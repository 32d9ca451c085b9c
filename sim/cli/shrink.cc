// `lockstep sim shrink`: the smallest plan that still breaks the same promise.
#include "sim/search/shrink.h"

#include <fmt/core.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include <CLI/CLI.hpp>

#include "sim/cli/command.h"
#include "sim/cli/plan_source.h"
#include "sim/cli/stopwatch.h"
#include "sim/cli/trial.h"
#include "sim/cli/usage.h"

namespace lockstep::sim {
namespace {

constexpr double kCandidateLimit = 20;  // seconds: the bug has made a step of core endless

struct ShrinkFlags {
  PlanSource source;
  std::string out = "build/shrunk.toml";
  std::uint32_t max_runs = 300;
  double limit_s = 10;
};

volatile std::sig_atomic_t interrupted = 0;

// Ctrl-C ends the search, not the program: the best plan so far is reported.
class CatchInterrupt {
 public:
  CatchInterrupt() {
    interrupted = 0;
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted = 1; };
    ::sigaction(SIGINT, &action, &before_);
  }
  ~CatchInterrupt() { ::sigaction(SIGINT, &before_, nullptr); }
  CatchInterrupt(const CatchInterrupt&) = delete;
  CatchInterrupt& operator=(const CatchInterrupt&) = delete;

 private:
  struct sigaction before_ = {};
};

std::string extent_of(const Plan& plan, const Tried& tried) {
  return fmt::format("{}, {}, {}, {:.3f} s simulated", counted(plan.entries.size(), "fault"),
                     counted(plan.peers, "peer"), counted(tried.collectives, "collective"),
                     static_cast<double>(tried.report.time_ns) * 1e-9);
}

// The default is a file in build/, which a fresh tree does not have.
void make_folder_of(const std::string& file) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);  // write_plan() tells of a failure
}

// The same assertion, not just any.
std::string key_of(const Failure& failure) {
  return failure.promise == "crash" ? failure.promise + ": " + failure.text : failure.promise;
}

// Only what broke counts: a goal that was exceeded, or none at all. With another reason a smaller plan would miss its
// goals by itself: there is less of everything in it.
void keep_what_broke(Plan& plan, const Report& report) {
  const auto too_much = report.failure->promise == "goal" ? exceeded(plan.expect, report) : std::nullopt;
  plan.expect = too_much.value_or(Expectations{});
}

int nothing_to_shrink(const ShrinkFlags& flags, const std::string& why, ExitCode code) {
  fmt::print(stderr, "{}\nlockstep sim {}{}\n", why, flags.source.seed ? "run" : "replay", flags.source.text());
  return code;
}

int shrink_plan(const ShrinkFlags& flags) {
  Plan plan = flags.source.plan();
  const Stopwatch stopwatch;
  const auto seconds = [&] { return stopwatch.seconds(); };
  const CatchInterrupt catches;
  const Tried first = try_plan(plan, kCandidateLimit);
  if (first.given_up) {
    return nothing_to_shrink(flags, fmt::format("the run was given up after {:.1f} s", seconds()), kExitLimit);
  }
  if (!first.report.failure) {
    return nothing_to_shrink(flags,
                             plan.expect.empty()
                                 ? "nothing to shrink: the run breaks no promise"
                                 : "nothing to shrink: the run breaks no promise, and meets its expectations",
                             kExitUsage);
  }
  const std::string goal = first.report.failure->text;
  keep_what_broke(plan, first.report);
  if (first.report.failure->promise == "goal" && plan.expect.empty()) {
    return nothing_to_shrink(
        flags, "nothing to shrink: a count is too low (" + goal + "), and would be in every smaller plan", kExitGoal);
  }
  Tried last;
  Tried best = first;
  const Trial trial = [&](const Plan& candidate) -> std::optional<Broken> {
    last = try_plan(candidate, kCandidateLimit);
    if (last.given_up || !last.report.failure) return {};
    return Broken{key_of(*last.report.failure), Instant{last.report.failure->at_ns}, last.report.launches};
  };
  make_folder_of(flags.out);
  ShrinkOptions options;
  options.max_runs = flags.max_runs;
  options.stop = [&] { return interrupted != 0 || (flags.limit_s > 0 && seconds() > flags.limit_s); };
  const bool progress = ::isatty(2) != 0;
  options.tell = [&](const Plan& smallest, std::uint32_t runs) {
    if (progress) {
      fmt::print(stderr, "\r{} runs, {:.1f} s: {}, {}   ", runs, seconds(), counted(smallest.entries.size(), "fault"),
                 counted(smallest.peers, "peer"));
    }
  };
  options.better = [&](const Plan& smaller) {
    best = last;
    write_plan(smaller, flags.out);
  };
  const std::optional<Shrunk> shrunk = shrink(plan, trial, options);
  if (progress) fmt::print(stderr, "\r{:70}\r", "");
  if (!shrunk) {
    return last.given_up ? nothing_to_shrink(flags, "given up", kExitLimit)
                         : nothing_to_shrink(flags, "the failure did not happen a second time", kExitNondeterminism);
  }
  write_plan(shrunk->plan, flags.out);
  fmt::print("{}\n", text_of(*best.report.failure));
  fmt::print("from {}\nto   {}\nin {}, {:.1f} s{}; written to {}\n", extent_of(plan, first),
             extent_of(shrunk->plan, best), counted(shrunk->runs, "run"), seconds(),
             shrunk->done       ? ""
             : interrupted != 0 ? " (interrupted: the best so far)"
                                : " (the limit: the best so far)",
             flags.out);
  fmt::print("what led to it: lockstep sim explain {0}{1}\nlockstep sim replay {0}{1}\n", flags.out,
             flags.source.mutant.text());
  return kExitPass;
}

}  // namespace

Run add_shrink(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("shrink", "the smallest plan that still breaks the same promise");
  const auto flags = std::make_shared<ShrinkFlags>();
  flags->source.declare(*command);
  command->add_option("--out", flags->out, "where the smallest plan is written")
      ->check(file_name())
      ->capture_default_str();
  command->add_option("--max-runs", flags->max_runs, "the most that are tried")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--time", flags->limit_s, "seconds; 0: no limit")
      ->check(real_number(0, kMostSeconds))
      ->capture_default_str();
  command->footer(R"(
A plan that misses a goal of a scenario can be shrunk if a count is too high (`lost_runs = 0`, `within`). A count that is
too low is too low in every smaller plan, too.

Exit codes:
  0 the smallest plan is written    2 the run fails in nothing    13 it failed only once    14 it did not end
  15 it missed a goal that cannot be shrunk)");
  return [flags, command] {
    SwarmFlags::refuse_without_effect(*command, !flags->source.file.empty());
    flags->source.mutant.plant();
    return shrink_plan(*flags);
  };
}

}  // namespace lockstep::sim
