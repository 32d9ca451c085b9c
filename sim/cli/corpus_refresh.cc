#include "sim/cli/corpus_refresh.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "core/base/mutant.h"
#include "sim/cli/command.h"
#include "sim/cli/corpus_item.h"
#include "sim/search/shrink.h"
#include "sim/words/nearest.h"

namespace lockstep::sim {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t budget_of(const std::string& mutant) {
  for (const MutantEntry& entry : kMutants) {
    if (entry.id == mutant) return static_cast<std::uint64_t>(entry.rarity);
  }
  return 0;
}

// The plan breaks its promise with the bug, and none without it.
std::optional<Broken> finds_it(const Plan& plan, const Story& story) {
  const Tried tried = try_planted(plan, story.mutant);
  const auto& failure = tried.report.failure;
  if (tried.given_up || !failure || failure->promise != story.promise) return {};
  return Broken{failure->promise, Instant{failure->at_ns}, tried.report.launches};
}

// The first seed whose plan finds the bug.
std::optional<std::uint64_t> hunt(const Story& story, std::uint64_t seeds) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    if (finds_it(plan_of(seed), story)) return seed;
  }
  return {};
}

// The new plan in words; empty: none was found.
std::string make_anew(CorpusItem& item, const RefreshOptions& options) {
  const std::uint64_t seeds = options.seeds != 0 ? options.seeds : budget_of(item.story.mutant);
  const std::optional<std::uint64_t> seed = hunt(item.story, seeds);
  if (!seed) return {};
  const auto began = Clock::now();
  ShrinkOptions limits;
  limits.stop = [&] { return std::chrono::duration<double>(Clock::now() - began).count() > options.shrink_s; };
  const std::optional<Shrunk> shrunk = shrink(
      plan_of(*seed), [&](const Plan& plan) { return finds_it(plan, item.story); }, limits);
  item.plan = shrunk ? shrunk->plan : plan_of(*seed);
  item.story.goals = goals_of(try_planted(item.plan, "").report);
  return fmt::format("made anew from seed {}: {} faults, {} peers", *seed, item.plan.entries.size(), item.plan.peers);
}

std::vector<CorpusItem> wanted(const RefreshOptions& options) {
  std::vector<CorpusItem> items = read_corpus(options.folder);
  std::vector<std::string> names;
  names.reserve(items.size());
  for (const CorpusItem& item : items) names.push_back(item.name());
  for (const std::string& name : options.only) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw UsageError(options.folder + " has no plan '" + name + "'" + did_you_mean(name, names));
    }
  }
  std::erase_if(items, [&](const CorpusItem& item) {
    const bool named = std::find(options.only.begin(), options.only.end(), item.name()) != options.only.end();
    return !named && (!options.only.empty() || judge(item).code != kExitGoal);
  });
  return items;
}

}  // namespace

int refresh_corpus(const RefreshOptions& options) {
  std::vector<CorpusItem> items = wanted(options);
  std::size_t left = 0;
  for (CorpusItem& item : items) {
    fmt::print("{:<28} {:<6} ", item.name(), item.story.promise);
    std::fflush(stdout);
    const std::string anew = item.story.mutant.empty() ? "" : make_anew(item, options);
    const Verdict verdict = anew.empty() ? Verdict{} : judge(item);
    if (!anew.empty() && verdict.code == kExitPass) {
      write_item(item);
      fmt::print("{}\n", anew);
      continue;
    }
    left += 1;
    fmt::print("{}\n", item.story.mutant.empty() ? "STALE, and no mutant plants its bug: hunt it by hand"
                       : anew.empty()            ? "STALE: no seed finds " + item.story.mutant + "; try --seeds N"
                                                 : anew + ", but " + verdict.text);
  }
  fmt::print("{} plans made anew, {} left\n", items.size() - left, left);
  return left == 0 ? kExitPass : kExitGoal;
}

}  // namespace lockstep::sim
