// The checkers of one run that remember what happened.
#pragma once

#include "sim/checkers/a1_admitted.h"
#include "sim/checkers/a4_excluded.h"
#include "sim/checkers/a5_evictions.h"
#include "sim/checkers/l2_admissions.h"
#include "sim/checkers/l2_causes.h"
#include "sim/checkers/l3_searches.h"
#include "sim/checkers/l5_progress.h"
#include "sim/checkers/l6_explained_waits.h"
#include "sim/checkers/liars.h"
#include "sim/checkers/p3_recovery.h"
#include "sim/checkers/s10_refused.h"
#include "sim/checkers/s11_at_quiet.h"
#include "sim/checkers/s1_one_outcome.h"
#include "sim/checkers/s2_flips.h"
#include "sim/checkers/s2_transfers.h"
#include "sim/checkers/s5_one_state.h"
#include "sim/checkers/s6_membership.h"
#include "sim/checkers/s9_stops.h"
#include "sim/checkers/t1_reach.h"
#include "sim/plan/plan.h"

namespace lockstep::sim {

struct Checkers {
  // `gang_size`: of every gang; 0: gangs may have several sizes. `now`: of the world.
  Checkers(const Plan& plan, std::uint32_t gang_size, const Instant& now)
      : membership(gang_size),
        at_quiet(plan.heartbeat),
        causes(plan, now),
        admissions(plan),
        progress(plan),
        waits(plan),
        recovery(plan),
        refusals(plan),
        admitted(plan.heartbeat * 40),
        stops(plan),
        reach(plan) {}

  OneOutcome one_outcome;
  OneState one_state;
  OneMembership membership;
  AtQuiet at_quiet;
  Causes causes;
  Searches searches;
  Admissions admissions;
  LineProgress progress;
  ExplainedWaits waits;
  Recovery recovery;
  Refusals refusals;
  Admitted admitted;
  Excluded excluded;
  Evictions evictions;
  Stops stops;
  Reach reach;
  Flips flips;
  Liars liars;
  Transfers transfers;
};

}  // namespace lockstep::sim
