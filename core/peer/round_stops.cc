#include "core/peer/round_stops.h"

#include <algorithm>
#include <utility>

#include "core/base/mutant.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

// Rule 15.
void RoundStops::ask_to_stop(Round& round, Status status, std::string text, PeerId other) {
  if (status == Status::kTimedOut && mutant(Mutant::kAbortsAlone)) {
    return RoundEnds::begin(round, ends_.outcome_of(round, status, std::move(text)), true);
  }
  if (round.stop || round.has_outcome()) return;
  if (round.is<stage::Queued>()) return end_queued(round, status, std::move(text));
  if (status == Status::kTimedOut && mutant(Mutant::kLateIsAborted)) status = Status::kAborted;
  round.stop = StopRequest{status, text.substr(0, kMaxTextBytes), other};
  round.deadline = context_.now + context_.options.abort_grace;
  say_stop(round, round.said_all());
}

bool RoundStops::stops_as_mismatch(Round& round, PeerId from, std::string why) {
  if (why.empty()) return false;
  if (round.completed_early) return true;  // it stops already; a refused call has no arguments to compare
  ask_to_stop(round, Status::kMismatch, std::move(why), from);
  return true;
}

void RoundStops::say_stop(const Round& round, bool done) {
  context_.session.say(
      wire::StopRound{*round.key, round.generation, round.stop->status, done, round.stop->text, round.stop->other});
}

// The caller waits for nobody, and has its memory. The others' calls of this use of the tag end by the same stop, in
// the cohort that they wait for: otherwise the next call with this tag would be taken for this one.
void RoundStops::end_queued(Round& round, Status status, std::string text) {
  end_early(round, status, text);
  context_.complete(round.call, ends_.outcome_of(round, status, std::move(text)));
}

void RoundStops::end_early(Round& round, Status status, const std::string& text) {
  round.stop = StopRequest{status, text.substr(0, kMaxTextBytes)};
  round.deadline = kNever;
  round.completed_early = true;
}

// Rule 52: the member whose arguments differed was a newcomer, and left the run; the others go on.
void RoundStops::drop_stop_of_misfit(Round& round) {
  if (!round.stop || round.stop->other.is_nobody()) return;
  const std::vector<PeerId>& ring = *round.attempt->ring;
  if (std::find(ring.begin(), ring.end(), round.stop->other) != ring.end()) return;
  void_stop(round);
}

// The call has its own time-out again.
void RoundStops::void_stop(Round& round) {
  round.stop.reset();
  round.deadline = round.limit;
}

}  // namespace lockstep::peer
