// `lockstep sim mutants`: plants one bug of core/base/mutant.h after the other, and counts the seeds until a promise that is
// named for it breaks. A simulator that misses one is too weak.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/mutant.h"
#include "core/base/result.h"

namespace lockstep::sim {

struct HuntOptions {
  std::vector<std::string> only;  // ids; none: all of them
  std::uint64_t seeds = 0;        // for each; 0: its own budget
  std::uint32_t jobs = 1;         // mutants at once, each in a process of its own
  bool json = false;
};

// Exit codes: 0 each was found by a promise named for it, 2 usage, 10 one was not.
int hunt_mutants(const HuntOptions& options);

// The one of this id. An error says what is wrong: the id, or that this build has no planted bugs.
Result<Mutant> mutant_of(const std::string& id);

}  // namespace lockstep::sim
