#include "sim/cli/corpus_item.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "core/base/mutant.h"
#include "sim/cli/command.h"
#include "sim/cli/mutants.h"
#include "sim/plan/plan_file.h"

namespace lockstep::sim {
namespace {

CorpusItem read_item(const std::string& path) {
  CorpusItem item{path, read_plan(path), {}};
  Result<Story> story = story_from_text(read_text(path));
  if (!story) throw UsageError(path + ":" + story.error().text);
  item.story = *std::move(story);
  return item;
}

}  // namespace

std::string CorpusItem::name() const { return std::filesystem::path(path).stem().string(); }

std::vector<CorpusItem> read_corpus(const std::string& folder) {
  if (!std::filesystem::exists(folder)) throw UsageError(folder + ": " + std::strerror(ENOENT));
  std::vector<CorpusItem> items;
  for (const std::string& path : toml_files_in({folder})) items.push_back(read_item(path));
  return items;
}

void write_item(const CorpusItem& item) {
  std::ofstream file(item.path);
  file << to_text(item.story) << "\n" << to_text(item.plan);
  file.close();
  if (!file) throw UsageError(item.path + ": cannot be written: " + std::strerror(errno));
}

Tried try_planted(const Plan& plan, const std::string& mutant) {
  const MutantFlag flag{mutant};
  flag.plant();
  Tried tried = try_plan(plan, kCorpusRunLimit);
  plant(Mutant::kNone);
  return tried;
}

Verdict judge_planted(const CorpusItem& item) {
  const Tried tried = try_planted(item.plan, item.story.mutant);
  const auto& failure = tried.report.failure;
  if (failure && failure->promise == item.story.promise) return {};
  return {kExitGoal,
          "STALE: with " + item.story.mutant + " planted " +
              (tried.given_up ? "it does not end"
               : failure      ? failure->promise + " breaks"
                              : "nothing breaks"),
          "lockstep sim replay " + item.path + MutantFlag{item.story.mutant}.text()};
}

Verdict judge(const CorpusItem& item) {
  const Tried tried = try_plan(item.plan, kCorpusRunLimit);
  const std::string command = "lockstep sim replay " + item.path;
  if (tried.given_up) return {kExitLimit, fmt::format("given up after {:.0f} s", kCorpusRunLimit), command};
  if (tried.report.failure) return {exit_code_of(*tried.report.failure), text_of(*tried.report.failure), command};
  std::string missed;
  for (const std::string& goal : missed_goals(item.story, tried.report)) missed += (missed.empty() ? "" : "; ") + goal;
  if (!missed.empty()) return {kExitGoal, "STALE: " + missed, command};
  if (kMutantsBuilt && !item.story.mutant.empty()) return judge_planted(item);
  return {};
}

}  // namespace lockstep::sim
