// How a round gets its key in a cohort (rule 9 of docs/protocol.md), and its next attempt: begun, held back by a
// proposal, or refused because this peer cannot take part. What an attempt does then is that of RoundOperations and
// RoundSyncs.
#pragma once

#include "core/peer/context.h"
#include "core/peer/round.h"
#include "core/peer/round_admissions.h"
#include "core/peer/round_commits.h"
#include "core/peer/round_ends.h"
#include "core/peer/round_links.h"
#include "core/peer/round_operations.h"
#include "core/peer/round_stops.h"
#include "core/peer/round_syncs.h"
#include "core/peer/round_table.h"
#include "core/peer/round_waits.h"
#include "core/peer/views.h"

namespace lockstep::peer {

class RoundAttempts {
 public:
  // The parts that hear of an attempt when it begins.
  struct Parts {
    const RoundEnds& ends;
    RoundSyncs& syncs;
    RoundStops& stops;
    RoundAdmissions& admissions;
    const RoundCommits& commits;
    RoundLinks& links;
    RoundWaits& waits;
    RoundOperations& operations;
  };

  RoundAttempts(Context& context, Views& views, RoundTable& rounds, const Parts& parts)
      : context_(context),
        views_(views),
        rounds_(rounds),
        ends_(parts.ends),
        syncs_(parts.syncs),
        stops_(parts.stops),
        admissions_(parts.admissions),
        commits_(parts.commits),
        links_(parts.links),
        waits_(parts.waits),
        operations_(parts.operations) {}

  // Gives the round its key in the newest cohort, and begins it unless an earlier attempt is still being given up.
  void enter(Round& round);
  // The round has a key, and no attempt that runs.
  void begin(Round& round);

 private:
  Context& context_;
  Views& views_;
  RoundTable& rounds_;
  const RoundEnds& ends_;
  RoundSyncs& syncs_;
  RoundStops& stops_;
  RoundAdmissions& admissions_;
  const RoundCommits& commits_;
  RoundLinks& links_;
  RoundWaits& waits_;
  RoundOperations& operations_;
};

}  // namespace lockstep::peer
