// What admissions mean for rounds (rule 21 of docs/protocol.md): when this peer says that it admits, and which rounds
// and waiting calls an admit closes, its own or another member's. Admission knows the calls of admit; the keys that
// rounds get in the next cohort are given by RoundAttempts.
#pragma once

#include "core/base/ids.h"
#include "core/peer/admission.h"
#include "core/peer/announcements.h"
#include "core/peer/cohort.h"
#include "core/peer/context.h"
#include "core/peer/launch_queue.h"
#include "core/peer/round.h"
#include "core/peer/round_ends.h"
#include "core/peer/round_stops.h"
#include "core/peer/round_table.h"
#include "core/peer/views.h"
#include "core/wire/message.h"

namespace lockstep::peer {

class RoundAdmissions {
 public:
  // What rounds hold, and this class looks at.
  struct Holders {
    RoundTable& rounds;
    LaunchQueue& queue;
    const Announcements& announcements;
  };

  RoundAdmissions(Context& context, Views& views, Admission& admission, const Holders& holders, const RoundEnds& ends,
                  RoundStops& stops)
      : context_(context),
        views_(views),
        admission_(admission),
        rounds_(holders.rounds),
        queue_(holders.queue),
        announcements_(holders.announcements),
        ends_(ends),
        stops_(stops) {}

  // ---- the admit of this peer ----

  // The program has called admit.
  void begin();
  // With auto_admit: launches wait for the next cohort from here on.
  void begin_automatically();
  // Joins the admission that another member has called, if calls would wait for it.
  void join();
  // Tells the coordinator that this peer admits, and which rounds it has open; unless it knows, a proposal is open, or
  // calls that were launched before have not begun.
  void say();
  // This peer has not launched this round, and a neighbour has: refuses the round if it will never be launched.
  void refuse_unlaunched(const RoundKey& key, Generation attempt);

  // ---- the admits of other members ----

  void on_admitting(const wire::Admitting& in);
  // Stops the round if a member that has called admit will never launch it.
  void refuse_if_closed(Round& round);
  // A member withdrew its admit, or is gone.
  void refuse_anew();

 private:
  [[nodiscard]] static PeerId member_that_closes(const Round& round, const Cohort& cohort,
                                                 const Cohort::Roster& members);
  void close_waiting();

  Context& context_;
  Views& views_;
  Admission& admission_;
  RoundTable& rounds_;
  LaunchQueue& queue_;
  const Announcements& announcements_;
  const RoundEnds& ends_;
  RoundStops& stops_;
};

}  // namespace lockstep::peer
