// One plan of the corpus: a file with a plan and its story; and whether it still proves what it was kept for.
#pragma once

#include <string>
#include <vector>

#include "sim/cli/exit_code.h"
#include "sim/cli/trial.h"
#include "sim/plan/plan.h"
#include "sim/search/story.h"

namespace lockstep::sim {

inline constexpr double kCorpusRunLimit = 60;  // seconds, for one run

struct CorpusItem {
  std::string path;
  Plan plan;
  Story story;

  [[nodiscard]] std::string name() const;  // of the file, without .toml
};

// Sorted by path. Throws UsageError.
std::vector<CorpusItem> read_corpus(const std::string& folder);
void write_item(const CorpusItem& item);

struct Verdict {
  ExitCode code = kExitPass;  // kExitGoal: stale
  std::string text = "ok";
  std::string command;  // that repeats it
};

// The plan must pass and reach its goals; in a build with planted bugs it must also find its bug.
Verdict judge(const CorpusItem& item);
// With its bug planted, the plan must find it.
Verdict judge_planted(const CorpusItem& item);
// Runs the plan with this bug planted; an empty id: with none.
Tried try_planted(const Plan& plan, const std::string& mutant);

}  // namespace lockstep::sim
