// The exit code of `lockstep sim`, and the failure behind it.
#pragma once

#include "sim/plan/report.h"

namespace lockstep::sim {

enum ExitCode : int {
  kExitPass = 0,
  kExitUsage = 2,
  kExitSafety = 10,
  kExitLiveness = 11,
  kExitCrash = 12,  // an assertion, or a signal
  kExitNondeterminism = 13,
  kExitLimit = 14,       // the run did not end
  kExitGoal = 15,        // an expectation of the plan was missed
  kExitIncomplete = 16,  // nothing is broken in what the journals show, and a journal lacks its end
};

ExitCode exit_code_of(const Failure& failure);

}  // namespace lockstep::sim
