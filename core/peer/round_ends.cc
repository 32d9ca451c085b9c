#include "core/peer/round_ends.h"

#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/ring/schedule.h"

namespace lockstep::peer {

Outcome RoundEnds::outcome_of(const Round& round, Status status, std::string text) const {
  Outcome outcome = outcome_of(round.request, status, std::move(text));
  outcome.round = round.key.value_or(RoundKey{});
  outcome.attempt = round.generation;
  outcome.retries = round.totals.retries;
  if (status != Status::kOk) return outcome;
  const Attempt& attempt = *round.attempt;
  const Request& request = round.request;
  outcome.world = attempt.world();
  outcome.contributors = attempt.ring;
  outcome.sizes = attempt.sizes;
  outcome.hash = round.hash;
  if (wire::has_choice(request.collective)) outcome.way.algorithm = attempt.algorithm;
  if (attempt.by_rate) {
    for (const std::uint64_t parameter : attempt.known_rank_parameters())
      outcome.way.rates.push_back(ring::LineReport::of(parameter).rate);
  }
  if (request.collective == Collective::kReduceScatter && request.tensors.size() == 1) {
    outcome.chunk = ring::chunk_of(attempt.rank.value, attempt.world(), request.tensors.front().count);
  }
  if (wire::has_blocks(request.collective)) {
    for (const std::uint64_t bytes : attempt.known_rank_parameters())
      outcome.blocks.push_back(bytes / size_of(request.type));
  }
  if (request.weight && request.op == ReduceOp::kAvg)
    outcome.weight = ring::total_weight(attempt.known_rank_parameters());
  return outcome;
}

Outcome RoundEnds::outcome_of(const Request& request, Status status, std::string text) const {
  Outcome outcome;
  outcome.status = status;
  outcome.text = std::move(text);
  if (request.state != nullptr) {  // until the sync has begun; see RoundSyncs::end()
    outcome.state_defined = states_.is_defined(request);
    outcome.revision = request.state->revision;
    outcome.lineage = request.state->lineage;
  }
  return outcome;
}

void RoundEnds::begin(Round& round, std::optional<Outcome> outcome, bool restores) {
  using Inputs = stage::Ending::Inputs;
  const bool was_ending = round.is<stage::Ending>();
  if (!was_ending) round.stage = stage::Ending{};
  stage::Ending& ending = *round.ending();
  ending.outcome = std::move(outcome);
  if (ending.outcome) round.deadline = kNever;
  if (restores && ending.inputs == Inputs::kKept) ending.inputs = Inputs::kToRestore;
  if (was_ending) return;
  if (round.operation() != nullptr) round.operation()->stop();
  if (round.sync) round.sync->stop();
}

RoundEnds::Step RoundEnds::drive(Round& round) {
  LOCKSTEP_ASSERT(round.is<stage::Ending>());
  if (round.is_on_streams()) {
    const Attempt& attempt = *round.attempt;
    if (!context_.mesh.release(attempt.key, attempt_id(attempt.generation), context_.now, context_.out()))
      return Step::kWaits;
  }
  if (round.sync && !end_sync(round)) return Step::kWaits;
  if (round.operation() != nullptr && !end_operation(round)) return Step::kWaits;
  if (round.has_outcome() && !RoundSyncs::end_watch(round)) return Step::kWaits;
  if (!round.has_outcome()) {
    LOCKSTEP_ASSERT(!round.requeues());  // the next cohort has begun in the step in which the old one was closed
    round.stage = stage::Held{};
    return Step::kAgain;
  }
  Outcome& outcome = *round.ending()->outcome;
  outcome.bytes_sent = round.totals.sent;
  outcome.bytes_received = round.totals.received;
  context_.jobs.close(round.watch_jobs);
  if (!round.completed_early) context_.complete(round.call, std::move(outcome));
  return Step::kOver;
}

// Staged: a committed state is swapped with the staging memory first. False: jobs still run.
bool RoundEnds::end_sync(Round& round) {
  if (round.sync->jobs_running() > 0) return false;
  if (round.has_committed() && round.request.state->staged) {
    round.sync->swap_some(context_.jobs.collected());
    start_jobs(round);
    if (round.sync->jobs_running() > 0) return false;
  }
  syncs_.end(round, admission_.is_member());
  return true;
}

// Once no stream holds its memory: decodes what has committed, or restores inputs (rule 16). False: jobs still run.
bool RoundEnds::end_operation(Round& round) {
  using Inputs = stage::Ending::Inputs;
  Attempt& attempt = *round.attempt;
  ring::Operation& operation = *attempt.operation;
  if (operation.jobs_running() > 0 && !mutant(Mutant::kJobsNotAwaited)) return false;
  if (round.has_committed()) {
    operation.decode_some(context_.jobs.collected());
    start_jobs(round);
    if (operation.jobs_running() > 0) return false;
    if (const auto damage = operation.damage())
      round.ending()->outcome = outcome_of(round, damage->status, damage->text);
  }
  if (round.ending()->inputs == Inputs::kToRestore) {
    round.ending()->inputs = Inputs::kRestoring;
    operation.restore(context_.jobs.collected());
    start_jobs(round);
    if (operation.jobs_running() > 0 && !mutant(Mutant::kToldBeforeRestore)) return false;
  }
  round.totals.sent += operation.bytes_sent();
  round.totals.received += operation.bytes_received();
  context_.jobs.close(attempt.jobs);
  attempt.operation.reset();
  announcements_.eager().drop(attempt.key, attempt.generation);
  return true;
}

}  // namespace lockstep::peer
