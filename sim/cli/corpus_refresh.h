// `lockstep sim corpus refresh` replaces plans that a change of the simulator has made stale. It searches a seed that
// finds the planted bug of the plan, shrinks the seed's plan, and stores it in the old plan's file. The story stays.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::sim {

struct RefreshOptions {
  std::string folder;
  std::vector<std::string> only;  // names of plans, stale or not; empty: all stale plans
  std::uint64_t seeds = 0;        // limit for each plan; 0: the budget of its bug
  double shrink_s = 10;           // seconds, for each
};

// Gives kExitPass when nothing is stale any more, else kExitGoal. Throws UsageError.
int refresh_corpus(const RefreshOptions& options);

}  // namespace lockstep::sim
