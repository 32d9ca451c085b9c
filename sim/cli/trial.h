// One run of one plan in a child process: an assertion, a crash or an endless loop is an answer, not the end of us.
#pragma once

#include <cstdint>

#include "sim/plan/plan.h"
#include "sim/plan/report.h"

namespace lockstep::sim {

struct Tried {
  Report report;  // of a process that died: promise "crash", and what its assertion said
  std::uint64_t collectives = 0;
  bool given_up = false;  // after limit_s, or interrupted by a signal from the terminal: no report
};

Tried try_plan(const Plan& plan, double limit_s);

}  // namespace lockstep::sim
