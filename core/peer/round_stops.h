// How this peer asks that a round stops (rule 15 of docs/protocol.md): the coordinator answers with a verdict, and the
// peer waits for it no longer than the grace period. Works on one round at a time and holds none. Its callers decide
// why a round stops; the verdict and the end of the grace period are Rounds' to carry out.
#pragma once

#include <string>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/peer/context.h"
#include "core/peer/round.h"
#include "core/peer/round_ends.h"

namespace lockstep::peer {

class RoundStops {
 public:
  RoundStops(Context& context, const RoundEnds& ends) : context_(context), ends_(ends) {}

  // `other`: the member whose arguments differ, if that is why.
  void ask_to_stop(Round& round, Status status, std::string text, PeerId other = {});
  // `why`: how the arguments of this neighbour differ; empty: they do not. True: the round is asked to stop.
  bool stops_as_mismatch(Round& round, PeerId from, std::string why);
  // Tells the coordinator. `done`: a Done was said in this attempt.
  void say_stop(const Round& round, bool done);
  // The caller does not wait for this round any more. The round ends for the others once it has a key.
  static void end_early(Round& round, Status status, const std::string& text);
  // The reason to stop the round is gone.
  static void void_stop(Round& round);
  // The round was to stop because of a member that is in its ring no longer.
  static void drop_stop_of_misfit(Round& round);

 private:
  void end_queued(Round& round, Status status, std::string text);

  Context& context_;
  const RoundEnds& ends_;
};

}  // namespace lockstep::peer
