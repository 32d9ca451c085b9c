#include "core/peer/round_attempts.h"

#include <algorithm>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/wire/reach.h"

namespace lockstep::peer {

// Rule 9.
void RoundAttempts::enter(Round& round) {
  Cohort& cohort = *views_.newest();
  const bool ending = round.requeues();
  if (ending) rounds_.forget_key(round);
  if (ending) round.ending()->requeue = false;
  rounds_.set_key(round, {cohort.id, context_.options.group, round.request.tag, cohort.uses.launch(round.request.tag)});
  round.generation = cohort.attempt_of(*round.key);
  if (round.stop && round.stop->status == Status::kCohortClosed) {  // it has found another cohort
    RoundStops::void_stop(round);
  }
  if (ending) return;
  round.stage = stage::Held{};
  begin(round);
}

void RoundAttempts::begin(Round& round) {
  Cohort& cohort = *views_.cohort_of(*round.key);
  if (const std::optional<wire::Verdict> spent = cohort.take_remembered(*round.key)) {  // rule 9
    return RoundEnds::begin(round, ends_.outcome_of(round, spent->status, spent->text), false);
  }
  if (views_.proposal()) {
    round.stage = stage::Held{};
    return;
  }
  // Invariant: the attempt before has been given up, and its memory is back (rule 16).
  LOCKSTEP_ASSERT(round.operation() == nullptr && !(round.attempt && round.attempt->jobs));
  round.generation = cohort.attempt_of(*round.key);
  const Cohort::Roster& among = cohort.generations.at(round.generation);
  Attempt& attempt = round.attempt.emplace(*round.key, round.generation, among, context_.options, round.what);
  waits_.begin(round);
  const ring::Reach reach = attempt.algorithm == wire::Algorithm::kGrid ? ring::Reach::kGrid : ring::Reach::kAll;
  if (attempt.direct && among.reach < reach) links_.go_direct();
  RoundStops::drop_stop_of_misfit(round);
  if (round.completed_early && commits_.decides_alone(round)) {
    return RoundEnds::begin(round, ends_.outcome_of(round, round.stop->status, round.stop->text), false);
  }
  if (round.stop) stops_.say_stop(round, false);
  if (round.completed_early) {
    round.deadline = context_.now + context_.options.abort_grace;
    round.stage = stage::Stuck{};
    return;
  }
  if (attempt.world() < round.request.minimum_world && !mutant(Mutant::kMinimumIgnored)) {
    return operations_.refuse(round, Status::kBelowMinimum,
                              "the group has " + std::to_string(attempt.world()) +
                                  " members, the call wants at least " + std::to_string(round.request.minimum_world) +
                                  ": wait_for_world waits for more");
  }
  if (const PeerId* const other = links_.find_beyond_reach(attempt)) {
    return operations_.refuse(round, Status::kUnreachable,
                              std::string(wire::name_of(round.request.collective)) + " needs a link between " +
                                  context_.name_of(context_.options.id) + " and " + context_.name_of(*other) + ": " +
                                  no_way());
  }
  if (round.request.weight && !ring::is_weight(*round.request.weight)) {
    return operations_.refuse(
        round, Status::kInvalidArgument,
        "a weight is a finite number that is not negative, not " + std::to_string(*round.request.weight));
  }
  admissions_.refuse_if_closed(round);
  if (round.request.collective == Collective::kSync) {
    syncs_.begin(round);
    return operations_.exchange_greetings(round);
  }
  syncs_.begin_watch(round);
  operations_.begin(round);
}

}  // namespace lockstep::peer
