#include "sim/cli/exit_code.h"

namespace lockstep::sim {

ExitCode exit_code_of(const Failure& failure) {
  if (failure.promise == "crash") return kExitCrash;
  if (failure.promise == "limit") return kExitLimit;
  if (failure.promise == "goal") return kExitGoal;
  if (failure.promise == "determinism") return kExitNondeterminism;
  return failure.promise.starts_with("L") ? kExitLiveness : kExitSafety;
}

}  // namespace lockstep::sim
