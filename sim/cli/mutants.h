// `lockstep sim mutants`: plants one bug of core/base/mutant.h after the other, and counts the seeds until a promise
// that is named for it breaks, in several searches. A simulator that misses a bug, or finds it half as often as
// recorded, is too weak.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cli/hunt.h"

namespace CLI {
class App;
}  // namespace CLI

namespace lockstep::sim {

// The error of a command that needs planted bugs, in a build without them.
inline constexpr auto kNoMutants =
    "this build has no planted bugs, as it should be; to build one that has: ./run mutants\n"
    "(or: cmake --preset mutants && cmake --build --preset mutants --target lockstep_sim_program, then "
    "build/mutants/sim/cli/lockstep_sim mutants)";

struct HuntOptions {
  std::vector<std::string> only;  // ids; none: all of them
  std::uint64_t seeds = 0;        // for each search; 0: the mutant's budget
  std::uint32_t searches = kSearches;
  std::uint32_t part = 1;  // of so many `parts`, which take about as long (rotation.h)
  std::uint32_t parts = 1;
  std::string rates;       // a file of detection rates; none: nothing to compare with
  bool record = false;     // write them instead
  std::uint32_t jobs = 1;  // searches at once, each in a process of its own
  bool json = false;
};

// Gives kExitPass if each was found by a promise named for it, as often as recorded, else kExitSafety. Throws
// UsageError.
int hunt_mutants(const HuntOptions& options);

// Throws UsageError unless there is a mutant with this id; in every build.
void check_mutant(const std::string& id);

// --mutant ID: plants a bug for commands that run seeds. In a build that ships it is not in the help, and refused.
struct MutantFlag {
  std::string id;

  void declare(CLI::App& command);
  void plant() const;                      // before any process is forked; throws UsageError
  [[nodiscard]] std::string text() const;  // as it was typed, with a space before; nothing if it was not
};

}  // namespace lockstep::sim
