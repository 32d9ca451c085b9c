// The head of a plan in the corpus: the bug that it once found, and what must happen in the run for it to be found again. Kept
// in the same TOML file as the plan, under `story`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "sim/report.h"

namespace lockstep::sim {

struct Story {
  std::string promise;  // that broke
  std::string why;      // one line
  std::string fixed;    // the commit that fixed it; empty: it was never in a commit, only planted
  std::string mutant;   // of core/base/mutant.h, that plants it again; may be empty
  // At least so often: names of Counts.
  std::vector<std::pair<std::string, std::uint64_t>> goals;
};

std::string to_text(const Story& story);
// Errors name line and column, and what was meant.
Result<Story> story_from_text(std::string_view text);

// What this run shows that a later one must show as well: each kind of fault as often, outcomes and races at least once.
std::vector<std::pair<std::string, std::uint64_t>> goals_of(const Counts& counts);
// "kills 0, at least 1 is wanted", for each goal that was not reached.
std::vector<std::string> missed_goals(const Story& story, const Counts& counts);

}  // namespace lockstep::sim
