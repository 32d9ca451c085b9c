// `lockstep sim corpus refresh`: plans that a change of the simulator has made stale are made anew, by the bugs that they once
// found: a seed that finds the planted bug is hunted, shrunk, and takes the plan's place. The story stays.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::sim {

struct RefreshOptions {
  std::string folder;
  std::vector<std::string> only;  // names of plans, stale or not; none: all that are stale
  std::uint64_t seeds = 0;        // at most so many for each; 0: the budget of its bug
  double shrink_s = 10;           // seconds, for each
};

// Gives kExitPass when nothing is stale any more, else kExitGoal. Throws UsageError.
int refresh_corpus(const RefreshOptions& options);

}  // namespace lockstep::sim
