// `lockstep sim corpus`: one small plan for each bug that was found, with its story. All plans must pass, and each must
// still reach the situation of its bug. A build with planted bugs also checks that each plan still finds its bug.
#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/base/mutant.h"
#include "core/base/text.h"
#include "sim/cli/command.h"
#include "sim/cli/corpus_item.h"
#include "sim/cli/corpus_refresh.h"
#include "sim/cli/mutants.h"
#include "sim/cli/usage.h"

namespace lockstep::sim {
namespace {

namespace fs = std::filesystem;

struct CorpusFlags {
  std::string folder = "sim/corpus";
  // add
  std::string plan;
  std::string name;
  Story story;
  RefreshOptions refresh;
};

int run_corpus(const CorpusFlags& flags, bool only_stale) {
  const std::vector<CorpusItem> items = read_corpus(flags.folder);
  std::size_t stale = 0;
  std::size_t broken = 0;
  Verdict worst;
  for (const CorpusItem& item : items) {
    const Verdict verdict = judge(item);
    const bool is_stale = verdict.code == kExitGoal;
    stale += is_stale ? 1 : 0;
    broken += is_stale || verdict.code == kExitPass ? 0 : 1;
    if (verdict.code != kExitPass && (worst.code == kExitPass || worst.code == kExitGoal)) worst = verdict;
    if (only_stale && !is_stale) continue;
    fmt::print("{:<28} {:<6} {}\n", item.name(), item.story.promise, verdict.text);
    if (only_stale)
      fmt::print("  {}\n  make it anew: lockstep sim corpus refresh --only {}\n", item.story.why, item.name());
  }
  fmt::print("{}, {} broken, {} stale{}\n", counted(items.size(), "plan"), broken, stale,
             kMutantsBuilt ? "; each with its bug planted, too" : "");
  if (only_stale) return stale == 0 ? kExitPass : kExitGoal;
  std::fflush(stdout);
  if (worst.code != kExitPass) fmt::print(stderr, "{}\n", worst.command);
  return worst.code;
}

// Checks that need no run.
void check_story(const CorpusFlags& flags) {
  const Story& story = flags.story;
  if (!is_promise(story.promise)) {
    throw UsageError("unknown promise '" + story.promise +
                     "' (one of: S1 to S11, A1 to A5, L1 to L6, P1 to P3, contract, limit, crash)");
  }
  if (story.why.find_first_not_of(' ') == std::string::npos) throw UsageError("--story is empty: say what was wrong");
  for (const auto& [option, text] :
       {std::pair{"--story", story.why}, std::pair{"--fixed", story.fixed}, std::pair{"--name", flags.name}}) {
    if (!is_plain(text))
      throw UsageError(std::string(option) + " must be one line of UTF-8, without control characters");
  }
  if (!story.mutant.empty()) check_mutant(story.mutant);
  if (flags.name.empty() || flags.name.find('/') != std::string::npos) {
    throw UsageError("--name is that of a file in " + flags.folder + ", without .toml");
  }
}

int add_plan(const CorpusFlags& flags) {
  check_story(flags);
  const fs::path path = fs::path(flags.folder) / (flags.name + ".toml");
  if (fs::exists(path)) throw UsageError(path.string() + " is there already: say another --name, or remove it first");
  CorpusItem item{path.string(), read_plan(flags.plan), flags.story};
  if (!flags.story.mutant.empty() && kMutantsBuilt) {
    const Verdict planted = judge_planted(item);
    if (planted.code != kExitPass) throw UsageError(flags.plan + ": " + planted.text);
  }
  const Tried tried = try_planted(item.plan, "");
  if (tried.given_up) throw UsageError(flags.plan + " does not end");
  const auto& failure = tried.report.failure;
  if (failure && failure->promise != flags.story.promise) {
    throw UsageError(flags.plan + " breaks " + failure->promise + ", not " + flags.story.promise);
  }
  if (!failure && flags.story.fixed.empty() && flags.story.mutant.empty()) {
    throw UsageError(flags.plan +
                     " breaks nothing: say which commit has fixed it (--fixed), or which mutant plants it again " +
                     "(--planted)");
  }
  item.story.goals = goals_of(tried.report);
  write_item(item);
  fmt::print("{}: {}{}\n", item.path, to_text(item.story),
             failure ? "it breaks its promise still: the corpus passes again when that is fixed" : "it passes");
  if (!flags.story.mutant.empty() && !kMutantsBuilt) {
    std::fflush(stdout);
    fmt::print(stderr,
               "note: this build has no planted bugs, so that nobody has seen {} break {} yet; ./run mutants tells\n",
               flags.story.mutant, flags.story.promise);
  }
  return kExitPass;
}

}  // namespace

Run add_corpus(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("corpus", "plans of bugs that were found: run, add, refresh");
  command->require_subcommand(1);
  const auto flags = std::make_shared<CorpusFlags>();
  CLI::App* const run =
      command->add_subcommand("run", "runs all plans: each must pass and reach the goals of its story");
  CLI::App* const stale = command->add_subcommand("stale", "lists plans that no longer reach their goals");
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
  CLI::App* const refresh =
      command->add_subcommand("refresh", "searches new plans for stale ones, by their planted bugs");
  refresh->add_option("folder", flags->folder, "with the plans")->capture_default_str();
  refresh->add_option("--only", flags->refresh.only, "only this plan, stale or not; may be repeated");
  refresh->add_option("--seeds", flags->refresh.seeds, "the most that are tried for each; 0: the budget of its bug");
  refresh->add_option("--time", flags->refresh.shrink_s, "seconds of shrinking, for each")
      ->check(real_number(0, kMostSeconds))
      ->capture_default_str();
  return [flags, run, add, refresh] {
    if (add->parsed()) return add_plan(*flags);
    if (refresh->parsed()) {
      if (!kMutantsBuilt) throw UsageError(kNoMutants);
      flags->refresh.folder = flags->folder;
      return refresh_corpus(flags->refresh);
    }
    return run_corpus(*flags, !run->parsed());
  };
}

}  // namespace lockstep::sim
