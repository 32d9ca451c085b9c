#include "core/peer/round_commits.h"

#include <utility>

#include "core/base/mutant.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

// Rule 12.
void RoundCommits::done_if_complete(Round& round) {
  if (!round.is<stage::Running>() || round.operation() == nullptr) return;
  if (!round.operation()->complete() || !round.knows_fingerprint() || is_frozen(round)) return;
  round.stage = stage::Done{};
  round.hash = round.operation()->result_hash();
  if (decides_alone(round)) {
    const bool newest = round.key->cohort == context_.view->cohort;
    RoundEnds::begin(round, ends_.outcome_of(round, Status::kOk, {}), false);
    if (context_.options.auto_admit && admission_.pending() > 0 && newest) admissions_.begin_automatically();
    return;
  }
  const wire::Done done{*round.key, round.generation, round.what, round.hash, round.fingerprint()};
  if (round.commits_among_peers()) {
    round.attempt->agree(context_.options.id, done);
    tell_done(round, done);
  } else {
    context_.session.say(done);
  }
  commit_if_agreed(round);
}

// Rule 33: there is nobody else to agree with. But the coordinator holds a leaver for the rounds that it had open, and
// a cohort for the rounds that were open when its members called admit.
bool RoundCommits::decides_alone(const Round& round) const {
  if (round.attempt->world() != 1 || !views_.cohort_of(*round.key)->alone()) return false;
  const bool newest = round.key->cohort == context_.view->cohort;
  const bool is_known = admission_.leaves() || admission_.has_said_admit() || !newest;
  return !is_known || mutant(Mutant::kDoneAloneUnsaid);
}

// Rule 14. Members that all hear it need no word of the coordinator, which may hear of many rounds at once then. Where
// members are far from each other the coordinator is told at once: a member may wait for it whose link to another has
// just broken.
void RoundCommits::tell_done(const Round& round, const wire::Done& done) {
  bool all_hear = true;
  for (const PeerId peer : *round.attempt->ring) {
    if (peer != context_.options.id) all_hear = context_.mesh.say(peer, done) && all_hear;
  }
  if (all_hear && round.attempt->distance != ring::Distance::kFar) return context_.session.say_soon(done, context_.now);
  context_.session.say(done);
}

void RoundCommits::commit_if_agreed(Round& round) {
  if (!round.is<stage::Done>() || !round.attempt->all_agree(round.hash) || is_frozen(round)) return;
  if (rounds_.reported().size() >= kMaxReported) return;  // the coordinator is that far behind
  rounds_.report({*round.key, round.generation, true, round.what.retry, round.hash, true});
  RoundEnds::begin(round, ends_.outcome_of(round, Status::kOk, {}), false);
}

// Rule 13.
std::string RoundCommits::on_commit(const wire::Commit& commit) {
  Round* const found = rounds_.find(commit.key);
  if (found != nullptr && found->is<stage::Claimed>() && found->sync->defined()) {
    found->stage = stage::Done{};  // all have claimed the same
    found->hash = found->sync->root().low;
  }
  const wire::OpenRound* const reported = rounds_.find_reported(commit.key);
  Round* const round = reported == nullptr ? found : nullptr;
  const bool done = round != nullptr && round->is<stage::Done>();
  const char* const unfinished = "committed a round that this peer has not finished";
  if (reported == nullptr && !done) return unfinished;
  const Generation attempt = done ? round->generation : reported->attempt;
  const std::uint64_t hash = done ? round->hash : reported->hash;
  if (attempt != commit.attempt) return unfinished;
  if (hash != commit.hash && !mutant(Mutant::kDifferingCommits)) return "committed another result than this peer's";
  if (done) {
    Outcome outcome = ends_.outcome_of(*round, Status::kOk, {});
    outcome.state_difference = commit.state_difference;
    if (round->sync != nullptr) syncs_.note_repaired(*round, commit.state_difference);
    RoundEnds::begin(*round, std::move(outcome), false);
  } else {
    rounds_.forget_reported(commit.key);
  }
  const bool newest = commit.key.cohort == context_.view->cohort;
  if (commit.admit_here && context_.options.auto_admit && newest) admissions_.begin_automatically();
  return {};
}

}  // namespace lockstep::peer
