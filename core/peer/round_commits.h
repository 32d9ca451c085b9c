// How rounds commit (rules 12 to 14 of docs/protocol.md): this peer says that it is done, and a round commits by the
// word of the coordinator, by that of all members, or alone. Decides no abort.
#pragma once

#include <string>

#include "core/peer/admission.h"
#include "core/peer/context.h"
#include "core/peer/round.h"
#include "core/peer/round_admissions.h"
#include "core/peer/round_ends.h"
#include "core/peer/round_syncs.h"
#include "core/peer/round_table.h"
#include "core/peer/views.h"
#include "core/wire/message.h"

namespace lockstep::peer {

class RoundCommits {
 public:
  RoundCommits(Context& context, const Views& views, const Admission& admission, RoundTable& rounds,
               const RoundEnds& ends, RoundSyncs& syncs, RoundAdmissions& admissions)
      : context_(context),
        views_(views),
        admission_(admission),
        rounds_(rounds),
        ends_(ends),
        syncs_(syncs),
        admissions_(admissions) {}

  // The round is done once its result is in hand and no proposal freezes it.
  void done_if_complete(Round& round);
  // All members may have said that they are done.
  void commit_if_agreed(Round& round);
  // Not empty: how the coordinator breaks the protocol.
  [[nodiscard]] std::string on_commit(const wire::Commit& commit);
  // Nobody else takes part, or waits for this round.
  [[nodiscard]] bool decides_alone(const Round& round) const;

 private:
  void tell_done(const Round& round, const wire::Done& done);
  [[nodiscard]] bool is_frozen(const Round& round) const { return views_.freezes(*round.key, round.generation); }

  Context& context_;
  const Views& views_;
  const Admission& admission_;
  RoundTable& rounds_;
  const RoundEnds& ends_;
  RoundSyncs& syncs_;
  RoundAdmissions& admissions_;
};

}  // namespace lockstep::peer
