// Many runs side by side, in child processes: an assertion in one of them is an answer, not the end of all.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sim/cli/totals.h"
#include "sim/plan/report.h"

namespace lockstep::sim {

struct ManyOptions {
  std::uint64_t first = 0;
  std::uint64_t end = 0;  // first, first + 1, ..., end - 1
  std::uint32_t jobs = 1;
  double limit_s = 0;          // no more are started after so long; 0: no limit
  bool keep_going = false;     // do not stop at the first failure
  bool progress = false;       // on stderr, if that is a terminal
  bool hashes = false;         // keep the hash of each run
  std::string unit = "seeds";  // of progress
  // Results of a run beside its report: collected in the child that ran it, and passed to this process.
  std::function<std::string()> leaves;
  std::function<void(const Report&, const std::string&)> takes;
};

struct ManyRuns {
  Totals totals;
  std::vector<Report> failures;                                 // by seed; a process that died: promise "crash"
  std::vector<std::pair<std::uint64_t, std::uint64_t>> hashes;  // seed and hash, by seed
};

// `one` runs in a child process. Each job takes every jobs-th seed, so that what is run first does not depend on speed.
ManyRuns run_many(const ManyOptions& options, const std::function<Report(std::uint64_t seed)>& one);

}  // namespace lockstep::sim
