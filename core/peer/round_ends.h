// How the attempts of rounds end (rule 16 of docs/protocol.md): memory comes back from streams and kernels, inputs are
// restored or results decoded, and then the call completes or the next attempt follows. Decides no outcome: its caller
// names one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/peer/admission.h"
#include "core/peer/announcements.h"
#include "core/peer/context.h"
#include "core/peer/local_states.h"
#include "core/peer/round.h"
#include "core/peer/round_syncs.h"

namespace lockstep::peer {

class RoundEnds {
 public:
  RoundEnds(Context& context, const Admission& admission, const LocalStates& states, RoundSyncs& syncs,
            Announcements& announcements)
      : context_(context), admission_(admission), states_(states), syncs_(syncs), announcements_(announcements) {}

  // What the caller of a round learns, if the round ends so now.
  [[nodiscard]] Outcome outcome_of(const Round& round, Status status, std::string text) const;
  // The same of a call that has not begun.
  [[nodiscard]] Outcome outcome_of(const Request& request, Status status, std::string text) const;
  // Ends the attempt: with an outcome, or without one to try again. `restores`: the input comes back (promise S3).
  // drive() sees to the rest.
  static void begin(Round& round, std::optional<Outcome> outcome, bool restores);
  enum class Step : std::uint8_t {
    kWaits,  // for memory
    kOver,   // the call is complete, and the round can go
    kAgain,  // the next attempt can begin
  };
  // Takes the end of a round as far as it goes now. The round is in stage::Ending.
  [[nodiscard]] Step drive(Round& round);

 private:
  void start_jobs(const Round& round) { context_.start_jobs(round.attempt->jobs); }
  [[nodiscard]] bool end_sync(Round& round);
  [[nodiscard]] bool end_operation(Round& round);

  Context& context_;
  const Admission& admission_;
  const LocalStates& states_;
  RoundSyncs& syncs_;
  Announcements& announcements_;
};

}  // namespace lockstep::peer
