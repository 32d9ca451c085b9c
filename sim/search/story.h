// The head of a plan in the corpus: the bug that the plan found, and the events without which the plan would not find
// it again. The TOML file of the plan holds it under `story`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "sim/plan/report.h"

namespace lockstep::sim {

struct Story {
  std::string promise;  // that broke
  std::string why;      // one line
  std::string fixed;    // the commit that fixed the bug; empty: the bug was only planted
  std::string mutant;   // of core/base/mutant.h, that plants it again; may be empty
  // At least so often: names of Counts.
  std::vector<std::pair<std::string, std::uint64_t>> goals;
};

std::string to_text(const Story& story);
// Errors name line and column, and suggest a correction.
Result<Story> story_from_text(std::string_view text);

// The goals of later runs, taken from this run: each kind of fault as often, outcomes and races at least once.
std::vector<std::pair<std::string, std::uint64_t>> goals_of(const Counts& counts);
// "kills 0, at least 1 is wanted", for each goal that was not reached.
std::vector<std::string> missed_goals(const Story& story, const Counts& counts);

}  // namespace lockstep::sim
