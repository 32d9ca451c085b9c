// `lockstep sim corpus`: one small plan for each bug that was found, with its story. All must pass, and each must still get to
// where its bug was; a build with planted bugs also proves that each still finds its own.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/base/mutant.h"
#include "sim/cli/command.h"
#include "sim/cli/mutants.h"
#include "sim/cli/trial.h"
#include "sim/plan_file.h"
#include "sim/story.h"

namespace lockstep::sim {
namespace {

namespace fs = std::filesystem;

constexpr double kRunLimit = 60;  // seconds

struct Flags {
  std::string folder = "sim/corpus";
  // add
  std::string plan;
  std::string name;
  Story story;
};

struct Item {
  std::string path;
  Plan plan;
  Story story;
};

Item read_item(const std::string& path) {
  Item item{path, read_plan(path), {}};
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Result<Story> story = story_from_text(text);
  if (!story) throw UsageError(path + ":" + story.error().text);
  item.story = *std::move(story);
  return item;
}

std::vector<Item> read_corpus(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".toml") paths.push_back(entry.path().string());
  }
  if (error) throw UsageError(folder + ": " + error.message());
  if (paths.empty()) throw UsageError(folder + " has no plans (*.toml)");
  std::sort(paths.begin(), paths.end());
  std::vector<Item> items;
  for (const std::string& path : paths) items.push_back(read_item(path));
  return items;
}

struct Verdict {
  ExitCode code = kExitPass;
  std::string text = "ok";
  std::string command;  // that repeats it
};

// With its bug planted, the plan must find it.
Verdict judge_planted(const Item& item) {
  const MutantFlag flag{item.story.mutant};
  flag.plant();
  const Tried tried = try_plan(item.plan, kRunLimit);
  plant(Mutant::kNone);
  const auto& failure = tried.report.failure;
  if (failure && failure->promise == item.story.promise) return {};
  return {kExitGoal,
          "STALE: with " + item.story.mutant + " planted " +
              (tried.given_up ? "it does not end"
               : failure      ? failure->promise + " breaks"
                              : "nothing breaks"),
          "lockstep sim replay " + item.path + flag.text()};
}

Verdict judge(const Item& item) {
  const Tried tried = try_plan(item.plan, kRunLimit);
  const std::string command = "lockstep sim replay " + item.path;
  if (tried.given_up) return {kExitLimit, fmt::format("given up after {:.0f} s", kRunLimit), command};
  if (tried.report.failure) return {exit_code_of(*tried.report.failure), text_of(*tried.report.failure), command};
  std::string missed;
  for (const std::string& goal : missed_goals(item.story, tried.report)) missed += (missed.empty() ? "" : "; ") + goal;
  if (!missed.empty()) return {kExitGoal, "STALE: " + missed, command};
  if (kMutantsBuilt && !item.story.mutant.empty()) return judge_planted(item);
  return {};
}

int run_corpus(const Flags& flags, bool only_stale) {
  const std::vector<Item> items = read_corpus(flags.folder);
  std::size_t stale = 0;
  std::size_t broken = 0;
  Verdict worst;
  for (const Item& item : items) {
    const Verdict verdict = judge(item);
    const bool is_stale = verdict.code == kExitGoal;
    stale += is_stale ? 1 : 0;
    broken += is_stale || verdict.code == kExitPass ? 0 : 1;
    if (verdict.code != kExitPass && (worst.code == kExitPass || worst.code == kExitGoal)) worst = verdict;
    if (only_stale && !is_stale) continue;
    fmt::print("{:<28} {:<6} {}\n", fs::path(item.path).stem().string(), item.story.promise, verdict.text);
    if (only_stale)
      fmt::print("  {}\n  make it anew: find a seed, then lockstep sim shrink, then corpus add\n", item.story.why);
  }
  fmt::print("{} plans, {} broken, {} stale{}\n", items.size(), broken, stale,
             kMutantsBuilt ? "; each with its bug planted, too" : "");
  if (only_stale) return stale == 0 ? kExitPass : kExitGoal;
  std::fflush(stdout);
  if (worst.code != kExitPass) fmt::print(stderr, "{}\n", worst.command);
  return worst.code;
}

int add_plan(const Flags& flags) {
  Item item{(fs::path(flags.folder) / (flags.name + ".toml")).string(), read_plan(flags.plan), flags.story};
  if (!flags.story.mutant.empty() && kMutantsBuilt) {
    const Verdict planted = judge_planted(item);
    if (planted.code != kExitPass) throw UsageError(flags.plan + ": " + planted.text);
  }
  const Tried tried = try_plan(item.plan, kRunLimit);
  if (tried.given_up) throw UsageError(flags.plan + " does not end");
  const auto& failure = tried.report.failure;
  if (failure && failure->promise != flags.story.promise) {
    throw UsageError(flags.plan + " breaks " + failure->promise + ", not " + flags.story.promise);
  }
  item.story.goals = goals_of(tried.report);
  std::ofstream file(item.path);
  file << to_text(item.story) << "\n" << to_text(item.plan);
  file.close();
  if (!file) throw UsageError(item.path + ": cannot be written: " + std::strerror(errno));
  fmt::print("{}: {}{}\n", item.path, to_text(item.story),
             failure ? "it breaks its promise still: the corpus passes again when that is fixed" : "it passes");
  return kExitPass;
}

}  // namespace

Run add_corpus(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("corpus", "the plans of bugs that were found");
  command->require_subcommand(1);
  const auto flags = std::make_shared<Flags>();
  CLI::App* const run = command->add_subcommand("run", "all must pass, and get to where their bugs were");
  CLI::App* const stale = command->add_subcommand("stale", "those that no longer reach their goals");
  for (CLI::App* each : {run, stale}) {
    each->add_option("folder", flags->folder, "with the plans")->capture_default_str();
  }
  CLI::App* const add = command->add_subcommand("add", "a plan, as `lockstep sim shrink` writes it");
  add->add_option("plan", flags->plan, "the smallest that was found")->required();
  add->add_option("--promise", flags->story.promise, "that broke")->required();
  add->add_option("--story", flags->story.why, "one line: what was wrong")->required();
  add->add_option("--fixed", flags->story.fixed, "the commit that fixed it");
  add->add_option("--planted", flags->story.mutant, "the mutant that plants it again");
  add->add_option("--name", flags->name, "of the file, without .toml")->required();
  add->add_option("--folder", flags->folder, "where the corpus is")->capture_default_str();
  return [flags, run, add] {
    if (add->parsed()) return add_plan(*flags);
    return run_corpus(*flags, !run->parsed());
  };
}

}  // namespace lockstep::sim
