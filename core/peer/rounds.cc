#include "core/peer/rounds.h"

#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/base/text.h"
#include "core/peer/validate_call.h"
#include "core/wire/describe.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

namespace {

// "1800 s", "250 ms".
std::string time_text(Duration time) {
  const std::int64_t ms = time.ns / 1'000'000;
  return ms > 0 && ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

// "all_reduce with tag 3".
std::string words_of(const Request& request) {
  return std::string(wire::name_of(request.collective)) + " with tag " + std::to_string(request.tag.value);
}

}  // namespace

// ---- calls ----

std::optional<Refusal> Rounds::validate(const Request& request) {
  const auto refusal = [&](Error error) {
    return Refusal{error.status, std::string(wire::name_of(request.collective)), std::move(error.text)};
  };
  if (auto error = validate_call(request)) return refusal(*std::move(error));
  if (request.collective == Collective::kSync) {
    if (auto error = LocalStates::validate_state(request)) return refusal(*std::move(error));
  }
  if (auto error = LocalStates::validate_watch(request)) return refusal(*std::move(error));
  if (request.scratch.length < scratch_bytes(request)) {
    return refusal({Status::kInvalidArgument, "scratch of " + std::to_string(request.scratch.length) + " bytes, " +
                                                  std::to_string(scratch_bytes(request)) + " needed"});
  }
  return std::nullopt;
}

void Rounds::launch(Launch in) {
  if (!admission_.is_member()) return admission_.refuse(in.call);
  if (!in.refused) in.refused = validate(in.request);
  if (must_wait(in.request) && !queue_.has_room(in.request)) {
    return context_.fail(in.call, Status::kTooManyInFlight,
                         std::to_string(queue_.size()) +
                             " calls wait for a place among the rounds in flight: wait for one to end before the next");
  }
  if (in.refused) return launch_refused(std::move(in));
  LaunchQueue::Entry entry{.call = in.call, .request = std::move(in.request), .what = {}, .launched = context_.now};
  entry.limit = context_.deadline_after(entry.request.timeout);
  entry.what = descriptor_of(entry.request, context_.options.segment_bytes);
  (void)place(std::move(entry));
}

// Rule 42: the others may wait for this use of the tag. Whatever the arguments are, this peer lends no memory.
void Rounds::launch_refused(Launch in) {
  const Refusal& refusal = *in.refused;
  const std::string own_name = context_.name_of(context_.options.id);
  const std::string told = wire::refused(own_name, refusal.operation, in.request.tag, refusal.why);
  if (mutant(Mutant::kRefusalUntold)) return context_.fail(in.call, refusal.status, refusal.why);
  if (mutant(Mutant::kRefusalTakesNoUse) && !admission_.admits()) {
    const Cohort& cohort = *views_.newest();
    const RoundKey key{cohort.id, context_.options.group, in.request.tag, cohort.uses.next(in.request.tag)};
    context_.session.say(wire::StopRound{key, cohort.attempt_of(key), refusal.status, false, told});
    return context_.fail(in.call, refusal.status, refusal.why);
  }
  LaunchQueue::Entry entry{.call = in.call, .request = {}, .what = {}, .launched = context_.now};
  entry.request.collective = in.request.collective;
  entry.request.tag = in.request.tag;
  entry.what.collective = in.request.collective;
  entry.what.retry = true;  // until the verdict
  entry.stop = StopRequest{refusal.status, told.substr(0, kMaxTextBytes)};
  const Round* const round = rounds_.find(place(std::move(entry)));
  context_.complete(in.call, round != nullptr ? ends_.outcome_of(*round, refusal.status, refusal.why)
                                              : ends_.outcome_of(in.request, refusal.status, refusal.why));
}

bool Rounds::stop(CallId call, const std::string& why) {
  std::string text = "aborted by " + context_.name_of(context_.options.id) + ": " + why;
  if (const auto order = queue_.find(call)) {
    end_waiting(*order, Status::kAborted, text);
    return true;
  }
  Round* const round = rounds_.find(call);
  if (round != nullptr) ask_to_stop(*round, Status::kAborted, std::move(text));
  return round != nullptr;
}

std::optional<Admission::RunEnds> Rounds::on_timer() {
  if (context_.now >= announce_at_) announce_silent();
  if (context_.now >= look_at_) tell_long_waits();
  std::vector<std::uint64_t> due;
  for (const auto& [order, round] : rounds_) {
    if (round.sync && context_.now >= round.sync->deadline()) round.sync->on_timer(context_.now);
    if (context_.now >= round.deadline) due.push_back(order);
  }
  for (const std::uint64_t order : due) {
    Round* const found = rounds_.find(order);
    if (found == nullptr) continue;
    Round& round = *found;
    const std::string what = words_of(round.request);
    if (round.stop) {
      std::string text = "no verdict on " + what + " within ";
      text.append(time_text(context_.options.abort_grace)).append(" of asking to stop it; left the run");
      return Admission::RunEnds{Status::kOutcomeUnknown, std::move(text)};
    }
    std::string text = context_.name_of(context_.options.id);
    text.append(" timed out after ").append(time_text(round.request.timeout)).append(" in ").append(what);
    if (round.is<stage::Queued>()) text += "; it waited for an admission";
    ask_to_stop(round, Status::kTimedOut, std::move(text));
  }
  for (const std::uint64_t order : queue_.due(context_.now)) {
    const Request& request = queue_.at(order).request;
    std::string text = context_.name_of(context_.options.id);
    text.append(" timed out after ").append(std::to_string(request.timeout.ns / 1'000'000)).append(" ms in tag ");
    text.append(std::to_string(request.tag.value)).append(", before a place in the window of rounds was free");
    end_waiting(order, Status::kTimedOut, text);
  }
  return std::nullopt;
}

// ---- attempts ----

// Gives the round its key in the newest cohort (rule 9), and begins it unless an earlier attempt is still being given
// up.
void Rounds::enter(Round& round) {
  Cohort& cohort = *views_.newest();
  const bool ending = round.requeues();
  if (ending) rounds_.forget_key(round);
  if (ending) round.ending()->requeue = false;
  rounds_.set_key(round, {cohort.id, context_.options.group, round.request.tag, cohort.uses.launch(round.request.tag)});
  round.generation = cohort.attempt_of(*round.key);
  if (round.stop && round.stop->status == Status::kCohortClosed) {  // it has found another cohort
    void_stop(round);
  }
  if (ending) return;
  round.stage = stage::Held{};
  begin_attempt(round);
}

void Rounds::begin_attempt(Round& round) {
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
  if (look_at_ == kNever) {
    look_at_ = std::max(round.launched + context_.long_wait() / 2, context_.now + context_.options.link_heartbeat);
  }
  const ring::Reach reach = attempt.algorithm == wire::Algorithm::kGrid ? ring::Reach::kGrid : ring::Reach::kAll;
  if (attempt.direct && among.reach < reach) go_direct();
  drop_stop_of_misfit(round);
  if (round.completed_early && decides_alone(round)) {
    return RoundEnds::begin(round, ends_.outcome_of(round, round.stop->status, round.stop->text), false);
  }
  if (round.stop) say_stop(round, false);
  if (round.completed_early) {
    round.deadline = context_.now + context_.options.abort_grace;
    round.stage = stage::Stuck{};
    return;
  }
  if (attempt.world() < round.request.minimum_world && !mutant(Mutant::kMinimumIgnored)) {
    return refuse(round, Status::kBelowMinimum,
                  "the group has " + std::to_string(attempt.world()) + " members, the call wants at least " +
                      std::to_string(round.request.minimum_world) + ": wait_for_world waits for more");
  }
  if (round.request.weight && !ring::is_weight(*round.request.weight)) {
    return refuse(round, Status::kInvalidArgument,
                  "a weight is a finite number that is not negative, not " + std::to_string(*round.request.weight));
  }
  refuse_if_closed(round);
  if (round.request.collective == Collective::kSync) {
    syncs_.begin(round);
    return exchange_greetings(round);
  }
  syncs_.begin_watch(round);
  if (!round.has_rank_parameters()) return begin_operation(round);
  round.stage = stage::ExchangingParameters{};
  attempt.rank_parameters.resize(attempt.world());
  const ring::LineReport line = attempt.by_rate ? context_.mesh.line() : ring::LineReport{};
  learn_rank_parameter(round, context_.options.id, attempt.rank, round.own_rank_parameter(context_.options.id, line));
  if (!round.is<stage::ExchangingParameters>()) return;
  greetings_.announce(round);
  take_readies(round);
}

// Rule 52: the member whose arguments differed was a newcomer, and left the run; the others go on.
void Rounds::drop_stop_of_misfit(Round& round) {
  if (!round.stop || round.stop->other.is_nobody()) return;
  const std::vector<PeerId>& ring = *round.attempt->ring;
  if (std::find(ring.begin(), ring.end(), round.stop->other) != ring.end()) return;
  void_stop(round);
}

// The reason to stop the round is gone: the call has its own time-out again.
void Rounds::void_stop(Round& round) {
  round.stop.reset();
  round.deadline = round.limit;
}

void Rounds::begin_operation(Round& round) {
  if (!round.root()) {
    return refuse(round, Status::kInvalidArgument,
                  std::string(wire::name_of(round.request.collective)) + " root " +
                      context_.name_of(round.request.root) + " is not a member of this group: give the id of a member");
  }
  if (const PeerId stranger = round.receiver_that_is_no_member(); !stranger.is_nobody()) {
    return refuse(round, Status::kInvalidArgument,
                  std::string(wire::name_of(round.request.collective)) + ": " + context_.name_of(stranger) +
                      ", which a block is for, is not a member of this group: give each member one block");
  }
  if (const auto why = round.validate_operation(context_.options)) return refuse(round, why->status, why->text);
  Attempt& attempt = *round.attempt;
  LOCKSTEP_ASSERT(!attempt.operation && !attempt.jobs);
  attempt.operation = round.new_operation(context_.options);
  attempt.jobs = context_.jobs.open(Jobs::Use::kRound, round.order);
  round.stage = stage::Running{};
  if (attempt.by_rate) asking_.emplace_back(attempt.key, attempt_id(attempt.generation));
  if (attempt.world() > 1) {
    take_early(round);
    greetings_.greet(round, eager_segments());
    attempt.silent = attempt.operation->is_one_small_segment();
    if (attempt.silent) announce_at_ = std::min(announce_at_, context_.now + context_.options.link_heartbeat / 4);
    take_readies(round);
  }
  if (!round.is<stage::Running>()) return;
  limit_under_way(round);
  attempt.operation->prepare(context_.jobs.collected());
  start_jobs(round);
  done_if_complete(round);
}

void Rounds::limit_under_way(Round& round) {
  if (!round.attempt->direct || round.attempt->distance != ring::Distance::kFar) return;
  if (const auto most = context_.mesh.under_way()) round.operation()->limit(*most);
}

void Rounds::on_job_done(const Jobs::Owner& owner, const JobDone& in) {
  Round& round = rounds_.at(owner.id);
  if (owner.use == Jobs::Use::kWatch) {
    if (syncs_.on_watch_job_done(round, in)) done_if_complete(round);
    return;
  }
  if (round.sync) return syncs_.on_job_done(round, in);
  const Attempt& attempt = *round.attempt;
  const auto finished = attempt.operation->job_done(Jobs::own(in.token), in.result, context_.jobs.collected());
  start_jobs(round);
  if (const auto& early = finished.used_early)
    announcements_.eager().used(attempt.peer_at(early->from), attempt.key, attempt.generation, early->index);
  if (finished.corrupt) {  // rule 35
    context_.mesh.reopen(finished.stream, attempt.peer_at(finished.from), "a segment whose checksum is wrong",
                         context_.now, context_.out());
  }
  if (finished.placeable) context_.mesh.place(*finished.placeable, finished.place, context_.now, context_.out());
  if (finished.fault) on_fault(round, finished);
  if (round.is<stage::Running>()) done_if_complete(round);
}

void Rounds::on_fault(Round& round, const ring::Operation::Finished& finished) {
  if (!round.is<stage::Running>() && !round.is<stage::Done>()) return;
  std::string text = finished.fault->text;
  if (finished.suspect) {
    text += " (" + context_.name_of(round.attempt->peer_at(*finished.suspect)) + " sent to " +
            context_.name_of(context_.options.id) + ")";
  }
  if (round.is<stage::Running>()) return refuse(round, finished.fault->status, text);
  // In a reduce-scatter this peer has its own chunk, and passes on those of others.
  ask_to_stop(round, finished.fault->status, context_.name_of(context_.options.id) + ": " + text);
}

// ---- commits ----

// Rule 33: there is nobody else to agree with. But the coordinator holds a leaver for the rounds that it had open, and
// a cohort for the rounds that were open when its members called admit.
bool Rounds::decides_alone(const Round& round) const {
  if (round.attempt->world() != 1 || !views_.cohort_of(*round.key)->alone()) return false;
  const bool newest = round.key->cohort == context_.view->cohort;
  const bool is_known = admission_.leaves() || admission_.has_said_admit() || !newest;
  return !is_known || mutant(Mutant::kDoneAloneUnsaid);
}

// Rule 12.
void Rounds::done_if_complete(Round& round) {
  if (!round.is<stage::Running>() || round.operation() == nullptr) return;
  if (!round.operation()->complete() || !round.knows_fingerprint() || is_frozen(round)) return;
  round.stage = stage::Done{};
  round.hash = round.operation()->result_hash();
  if (decides_alone(round)) {
    const bool newest = round.key->cohort == context_.view->cohort;
    RoundEnds::begin(round, ends_.outcome_of(round, Status::kOk, {}), false);
    if (context_.options.auto_admit && admission_.pending() > 0 && newest) admit_automatically();
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

// Rule 14. Members that all hear it need no word of the coordinator, which may hear of many rounds at once then. Where
// members are far from each other the coordinator is told at once: a member may wait for it whose link to another has
// just broken.
void Rounds::tell_done(const Round& round, const wire::Done& done) {
  bool all_hear = true;
  for (const PeerId peer : *round.attempt->ring) {
    if (peer != context_.options.id) all_hear = context_.mesh.say(peer, done) && all_hear;
  }
  if (all_hear && round.attempt->distance != ring::Distance::kFar) return context_.session.say_soon(done, context_.now);
  context_.session.say(done);
}

void Rounds::commit_if_agreed(Round& round) {
  if (!round.is<stage::Done>() || !round.attempt->all_agree(round.hash) || is_frozen(round)) return;
  if (reported_.size() >= kMaxReported) return;  // the coordinator is that far behind
  reported_.emplace(*round.key,
                    wire::OpenRound{*round.key, round.generation, true, round.what.retry, round.hash, true});
  RoundEnds::begin(round, ends_.outcome_of(round, Status::kOk, {}), false);
}

// Rule 13.
std::string Rounds::on_commit(const wire::Commit& commit) {
  Round* const found = rounds_.find(commit.key);
  if (found != nullptr && found->is<stage::Claimed>() && found->sync->defined()) {
    found->stage = stage::Done{};  // all have claimed the same
    found->hash = found->sync->root().low;
  }
  const auto reported = reported_.find(commit.key);
  Round* const round = reported == reported_.end() ? found : nullptr;
  const bool done = round != nullptr && round->is<stage::Done>();
  const char* const unfinished = "committed a round that this peer has not finished";
  if (reported == reported_.end() && !done) return unfinished;
  const Generation attempt = done ? round->generation : reported->second.attempt;
  const std::uint64_t hash = done ? round->hash : reported->second.hash;
  if (attempt != commit.attempt) return unfinished;
  if (hash != commit.hash && !mutant(Mutant::kDifferingCommits)) return "committed another result than this peer's";
  if (done) {
    Outcome outcome = ends_.outcome_of(*round, Status::kOk, {});
    outcome.state_difference = commit.state_difference;
    if (round->sync != nullptr) syncs_.note_repaired(*round, commit.state_difference);
    RoundEnds::begin(*round, std::move(outcome), false);
  } else {
    reported_.erase(reported);
  }
  const bool newest = commit.key.cohort == context_.view->cohort;
  if (commit.admit_here && context_.options.auto_admit && newest) admit_automatically();
  return {};
}

std::string Rounds::on_verdict(const wire::Verdict& verdict, bool rejoins) {
  if (verdict.key.group != context_.options.group) return {};
  const wire::Commit commit{verdict.key, verdict.attempt, verdict.hash, false, verdict.text};
  if (reported_.contains(verdict.key)) {
    if (verdict.status != Status::kOk) return "took back a round that all members had agreed on";
    return on_commit(commit);
  }
  Round* round = rounds_.find(verdict.key);
  if (round != nullptr) {
    if (round->has_outcome()) return {};
    if (verdict.status == Status::kOk) return on_commit(commit);
    if (verdict.status == Status::kCohortClosed && rejoins && context_.options.auto_admit) {  // rule 21
      RoundEnds::begin(*round, std::nullopt, true);
      round->ending()->requeue = true;
    } else {
      RoundEnds::begin(*round, ends_.outcome_of(*round, verdict.status, verdict.text), true);
    }
    return {};
  }
  // Not launched yet, or long over.
  announcements_.forget(verdict.key);
  if (Cohort* cohort = views_.cohort_of(verdict.key)) cohort->release(verdict.key);
  views_.remember(verdict);
  return {};
}

// ---- syncs ----

Rounds::Claimed Rounds::claimed(const RoundKey& key, Generation attempt, const std::string& said) {
  Round* round = rounds_.find(key);
  if (round == nullptr || round->generation != attempt || round->is<stage::Ending>()) return {};
  if (round->is<stage::Claimed>()) return {round, round->sync.get(), {}};
  return {nullptr, nullptr, said + " a state in a round that this peer has claimed none in"};
}

Rounds::Claimed Rounds::compared(const RoundKey& key, Generation attempt, const std::string& said) {
  Round* round = rounds_.find(key);
  const state::Sync* watched = round == nullptr ? nullptr : RoundSyncs::watched(*round, attempt);
  return watched != nullptr ? Claimed{round, watched, {}} : claimed(key, attempt, said);
}

Rounds::Election Rounds::on_elected(const wire::Elected& elected) {
  Claimed found = claimed(elected.key, elected.attempt, "elected");
  if (found.round == nullptr) return {false, std::move(found.violation)};
  std::string violation = syncs_.elect(*found.round, elected);
  const bool taken = violation.empty();
  return {taken, std::move(violation)};
}

std::string Rounds::on_ask_outline(const wire::AskOutline& ask) {
  Claimed found = compared(ask.key, ask.attempt, "asked what is in");
  if (found.state == nullptr) return std::move(found.violation);
  const auto outline = found.state->outline(ask);
  if (!outline) return "asked what is in a state that is undefined";
  context_.session.say(*outline);
  return {};
}

std::string Rounds::on_ask_entry(const wire::AskEntry& ask) {
  Claimed found = compared(ask.key, ask.attempt, "asked for an entry of");
  if (found.state == nullptr) return std::move(found.violation);
  const auto entry = found.state->entry(ask);
  if (!entry) return "asked for an entry that a state does not have";
  context_.session.say(*entry);
  return {};
}

void Rounds::ask_again() {
  for (const auto& [key, attempt] : std::exchange(asking_, {}))
    context_.mesh.ask_again(key, attempt, context_.now, context_.out());
}

// Sends the requests that can be sent, and reports complete states.
void Rounds::drive_syncs() {
  std::optional<std::set<PeerId>> linked;
  for (auto& [order, round] : rounds_) {
    if (!round.sync || !round.attempted() || round.sync->partners().empty()) continue;
    if (!linked) linked = context_.mesh.linked();
    syncs_.ask(round, *linked);
    if (auto why = syncs_.stranded(round)) ask_to_stop(round, Status::kAborted, std::move(*why));
    syncs_.done_if_complete(round);
  }
}

// ---- admission ----

void Rounds::say_admit() {
  if (queue_.has_until(admission_.admits_after())) return;
  if (admission_.must_say_admit(views_.proposal().has_value())) admission_.say_admit(open_rounds());
}

void Rounds::begin_admit() {
  say_admit();
  if (admission_.has_said_admit()) return;
  for (const auto& [key, attempt] : announcements_.announced()) refuse_unlaunched(key, attempt);
}

void Rounds::admit_automatically() {
  if (admission_.begin_automatic()) say_admit();
}

void Rounds::join_admission() {
  const Cohort* cohort = views_.newest();
  if (cohort == nullptr || !admission_.joins(*cohort)) return;
  if (admission_.leaves() && !admission_.admits()) return close_waiting();
  admit_automatically();
}

void Rounds::on_admitting(const wire::Admitting& in) {
  if (!Views::has_member(*context_.view, in.peer)) return;
  Cohort* cohort = views_.newest();
  if (cohort == nullptr) return;
  if (in.cohort.value == 0) {  // the member has withdrawn its admit, and launches again
    cohort->pending_admits.erase(in.peer);
    cohort->admits_changed({});
    return refuse_anew();
  }
  if (in.cohort != cohort->id) return;
  Cohort::PendingAdmit& admit = cohort->pending_admits[in.peer];
  admit = {.at_least = in.at_least, .automatic = in.automatic, .open = {}};
  for (const wire::OpenRound& round : in.open) admit.open.insert(round.key);
  cohort->admits_changed(in.peer);
  join_admission();
  for (auto& [order, round] : rounds_) {
    if (round.open()) refuse_if_closed(round);
  }
}

void Rounds::enter_queued() {
  for (auto& [order, round] : rounds_) {
    if (round.is<stage::Queued>() && !admission_.admits()) enter(round);
  }
}

// A member withdrew its admit, or is gone: checks the rounds again that were refused because of it. A stop that was
// heeded comes as a verdict.
void Rounds::refuse_anew() {
  for (auto& [order, round] : rounds_) {
    if (!round.stop || round.stop->status != Status::kCohortClosed || !round.open()) continue;
    void_stop(round);
    refuse_if_closed(round);
  }
}

// Rule 21: a member that has called admit will never launch this round.
void Rounds::refuse_if_closed(Round& round) {
  if (round.stop) return;
  const Cohort& cohort = *views_.cohort_of(*round.key);
  const Cohort::Roster& members = cohort.generations.at(round.generation);
  // While an attempt is given up whose successor will be below its minimum: members that have called admit have heard
  // of that.
  if (members.ring->size() < round.request.minimum_world) return;
  if (cohort.id == context_.view->cohort) {
    join_admission();
    if (admission_.goes_on(cohort)) return;
  }
  const PeerId closing = member_that_closes(round, cohort, members);
  if (closing.is_nobody()) {
    round.unclosed = {*round.key, round.generation, cohort.admit_changes};
  } else {
    ask_to_stop(round, Status::kCohortClosed, wire::not_launched(context_.name_of(closing), round.key->tag));
  }
}

// Returns a member that has called admit without launching this round, or nobody if there is none. Each of a thousand
// members hears of a thousand admits, so an admit that is known not to close the round is not looked at again.
PeerId Rounds::member_that_closes(const Round& round, const Cohort& cohort, const Cohort::Roster& members) {
  const auto closes = [&](const auto& entry) {
    const auto& [peer, admit] = entry;
    const bool launched = std::any_of(admit.open.begin(), admit.open.end(), [&](const RoundKey& key) {
      return key.tag == round.key->tag && key.use == round.key->use && key.cohort == round.key->cohort;
    });
    return !launched && std::find(members.bound.begin(), members.bound.end(), peer) != members.bound.end();
  };
  const auto& admits = cohort.pending_admits;
  if (round.unclosed && round.unclosed->key == *round.key && round.unclosed->generation == round.generation) {
    if (round.unclosed->changes == cohort.admit_changes) return {};
    if (round.unclosed->changes + 1 == cohort.admit_changes && !cohort.last_admit.is_nobody()) {
      return closes(*admits.find(cohort.last_admit)) ? cohort.last_admit : PeerId{};
    }
  }
  const auto at = std::find_if(admits.begin(), admits.end(), closes);
  return at == admits.end() ? PeerId{} : at->first;
}

// ---- changes of the membership ----

std::vector<wire::OpenRound> Rounds::open_rounds() const {
  std::vector<wire::OpenRound> open;
  for (const auto& [order, round] : rounds_) {
    if (!round.open()) continue;
    open.push_back({*round.key, round.generation, round.said_all(), round.what.retry, round.hash, false});
  }
  for (const auto& [key, round] : reported_) open.push_back(round);
  return open;
}

void Rounds::renew_grace(Instant limit) {
  for (auto& [order, round] : rounds_) {
    if (round.stop && round.deadline != kNever) round.deadline = limit;
  }
}

void Rounds::give_up_touched(const wire::Propose& change) {
  if (change.lost.empty() && change.left.empty() && change.relinked.empty()) return;
  const bool cut = !views_.is_in(change.view);
  for (auto& [order, round] : rounds_) {
    if (round.open()) give_up(round, change, cut);
  }
  views_.install(change, [&](const RoundKey& key) { return rounds_.find(key) != nullptr; });
  for (auto& [order, round] : rounds_) {
    if (!round.open()) continue;
    if (const Cohort* cohort = views_.cohort_of(*round.key)) round.generation = cohort->attempt_of(*round.key);
  }
}

// `cut`: this peer leaves, and is in no view any more.
void Rounds::give_up(Round& round, const wire::Propose& change, bool cut) {
  const Cohort* cohort = views_.cohort_of(*round.key);
  if (cohort == nullptr || !cohort->touched(*round.key, round.generation, change)) return;
  const bool lost = cohort->loses(change, round.generation);
  if (mutant(Mutant::kDoneCommitsOnLoss) && round.is<stage::Done>()) {
    return RoundEnds::begin(round, ends_.outcome_of(round, Status::kOk, {}), false);
  }
  if (cut) {
    const bool relaid = cohort->relinks(change);  // `change.left` may name this peer alone
    const std::string why = lost     ? "a member was lost"
                            : relaid ? "the ring was laid around a broken link"
                                     : "another member left";
    return RoundEnds::begin(
        round, ends_.outcome_of(round, Status::kOutcomeUnknown, why + " while this peer was leaving"), true);
  }
  if (round.is<stage::Held>()) return;  // it has not begun in the generation that is over
  if (!round.what.retry && !mutant(Mutant::kRetriesWhatMustNot)) {
    const std::string why = "too many rounds were cut short with tag " + std::to_string(round.key->tag.value);
    return RoundEnds::begin(round, ends_.outcome_of(round, lost ? Status::kPeerLost : Status::kWorldChanged, why),
                            true);
  }
  ++round.totals.retries;
  context_.note(
      {.kind = trace::Kind::kRoundRetried, .view = change.view.number, .peer = {}, .round = *round.key, .text = {}});
  RoundEnds::begin(round, std::nullopt, true);
}

void Rounds::enter_cohort() {
  for (auto& [order, round] : rounds_) {
    if ((round.is<stage::Queued>() && !admission_.waits(order)) || round.requeues()) enter(round);
  }
}

void Rounds::forget_stale_announcements() {
  announcements_.forget_if([&](const RoundKey& key, Generation attempt) {
    return views_.is_stale(key, attempt, rounds_.find(key) != nullptr);
  });
}

void Rounds::go_on() {
  pull_decided();
  for (auto& [order, round] : rounds_) {
    if (round.is<stage::Held>()) begin_attempt(round);
    syncs_.claim_if_digested(round);
    if (round.is<stage::Running>()) done_if_complete(round);
  }
  say_admit();
}

void Rounds::end_alone(const RoundKey& key, Status status, const std::string& text) {
  Round* const round = rounds_.find(key);
  if (round == nullptr || round->has_outcome()) return;
  // This peer has the result, so no arguments differ: a member has lied to the coordinator (rule 56). The others may
  // commit the round among themselves (rule 14), or have done so: the end of the run leaves the outcome unknown.
  if (round->is<stage::Done>() && round->commits_among_peers()) return;
  RoundEnds::begin(*round, ends_.outcome_of(*round, status, text), true);
}

void Rounds::end(Status status, const std::string& text) {
  for (auto& [order, round] : rounds_) {
    if (round.has_outcome()) continue;
    const bool known = round.is<stage::Queued>();
    RoundEnds::begin(round, ends_.outcome_of(round, known ? status : Status::kOutcomeUnknown, text),
                     !mutant(Mutant::kRestoresNothing));
  }
  for (LaunchQueue::Entry& entry : queue_.clear()) {
    if (mutant(Mutant::kWaitingDropped)) continue;
    context_.complete(entry.call, ends_.outcome_of(entry.request, status, text));
  }
}

void Rounds::forget() {
  announcements_.clear();
  reported_.clear();
}

// ---- stops ----

// This peer cannot take part. Members that have called with other arguments may wait: the round ends for all, by
// verdict.
void Rounds::refuse(Round& round, Status status, const std::string& text) {
  round.stage = stage::Stuck{};
  if (round.attempt->by_rate) asking_.emplace_back(round.attempt->key, attempt_id(round.attempt->generation));
  ask_to_stop(round, status, context_.name_of(context_.options.id) + ": " + text);
}

// Rule 15.
void Rounds::ask_to_stop(Round& round, Status status, std::string text, PeerId other) {
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

// `done`: a Done was said in this attempt.
void Rounds::say_stop(const Round& round, bool done) {
  context_.session.say(
      wire::StopRound{*round.key, round.generation, round.stop->status, done, round.stop->text, round.stop->other});
}

// The caller waits for nobody, and has its memory. The others' calls of this use of the tag end by the same stop, in
// the cohort that they wait for: otherwise the next call with this tag would be taken for this one.
void Rounds::end_queued(Round& round, Status status, std::string text) {
  end_early(round, status, text);
  context_.complete(round.call, ends_.outcome_of(round, status, std::move(text)));
}

void Rounds::end_early(Round& round, Status status, const std::string& text) {
  round.stop = StopRequest{status, text.substr(0, kMaxTextBytes)};
  round.deadline = kNever;
  round.completed_early = true;
}

// ---- long waits ----

// Rule 54: the oldest calls that wait long, and have moved no byte since the last look, are told, once in each attempt.
// Looks are three heartbeats apart, however many calls are in flight.
void Rounds::tell_long_waits() {
  look_at_ = kNever;
  std::size_t told = 0;
  for (auto& [order, round] : rounds_) {
    if (round.completed_early || (round.attempted() && round.attempt->told_wait)) continue;
    look_at_ = context_.now + context_.long_wait() / 2;
    if (!round.attempted()) continue;
    const std::uint64_t moved = round.bytes_moved();
    const bool stands = std::exchange(round.attempt->moved, moved) == moved;
    if (!stands || context_.now < round.launched + context_.long_wait() || told == kMaxWaitsTold) continue;
    ++told;
    tell_wait(round);
  }
}

void Rounds::tell_wait(Round& round) {
  if (round.attempt) round.attempt->told_wait = true;
  context_.session.say(wire::CallWaits{*round.key,
                                       round.generation,
                                       round.what.collective,
                                       wire::CallStage::kCalled,
                                       context_.now - round.launched,
                                       {}});
}

void Rounds::on_awaited(const wire::CallAwaited& in, const std::string& transfer) {
  if (in.missing > 0) {
    return context_.note({.kind = trace::Kind::kCallWaits,
                          .view = {},
                          .peer = {},
                          .round = in.key,
                          .number = in.missing,
                          .text = in.text});
  }
  Round* const round = find_or_pull(in.key);
  if (round != nullptr && !round->has_outcome()) {
    if (round->generation == in.attempt) tell_wait(*round);
    return;
  }
  wire::CallWaits answer{in.key, in.attempt, in.collective, wire::CallStage::kToCome, {}, {}};
  if (reported_.contains(in.key)) {  // the coordinator does not know yet that it is over
    answer.stage = wire::CallStage::kCalled;
  } else if (round != nullptr || phase_of(in.key) == RoundPhase::kPast) {
    answer.stage = wire::CallStage::kOver;
  } else {
    const Cohort* const cohort = views_.cohort_of(in.key);
    if (cohort == nullptr || cohort->attempt_of(in.key) != in.attempt) return;
    answer.busy = std::string(cut(busy(in.key.tag, transfer), kMaxBusyBytes));
  }
  context_.session.say(answer);
}

// Others wait for this peer's call with this tag: the call that this peer is in instead.
std::string Rounds::busy(Tag tag, const std::string& transfer) const {
  if (queue_.count(tag) > 0) return "full: its call waits for a place among the rounds in flight";
  if (admission_.admits()) return "in admit";
  for (const auto& [order, round] : rounds_) {
    if (round.open()) return "in " + words_of(round.request);
  }
  return transfer.empty() ? "in no call" : "in " + transfer;
}

// ---- the end ----

bool Rounds::drive_ends() {
  bool unkept = false;
  bool ended = false;
  do {
    ended = drive_ends_once(unkept);
  } while ((ended || !queue_.empty()) && begin_waiting(ended));
  if (admission_.admits()) say_admit();
  return unkept;
}

// True: some rounds are over. `unkept`: one of them was kept for a leaver.
bool Rounds::drive_ends_once(bool& unkept) {
  const std::size_t before = rounds_.size();
  for (auto at = rounds_.begin(); at != rounds_.end();) {
    Round& round = at->second;
    RoundEnds::Step step = RoundEnds::Step::kWaits;
    do {  // an attempt that begins again may end at once
      step = round.is<stage::Ending>() ? ends_.drive(round) : RoundEnds::Step::kWaits;
      if (step == RoundEnds::Step::kAgain) begin_attempt(round);
    } while (step == RoundEnds::Step::kAgain);
    if (step == RoundEnds::Step::kWaits) {
      ++at;
      continue;
    }
    if (round.key) {
      if (Cohort* cohort = views_.cohort_of(*round.key)) unkept = cohort->release(*round.key) || unkept;
      rounds_.forget_key(round);
      announcements_.forget(*round.key);
    }
    at = rounds_.erase(at);
  }
  return rounds_.size() < before;
}

bool Rounds::drop_cohorts() {
  return views_.drop_cohorts([&](CohortId id) { return rounds_.has_cohort(id); });
}

void Rounds::assert_invariants() const {
  for (const auto& [order, round] : rounds_) round.assert_invariants();
  queue_.assert_invariants();
  LOCKSTEP_ASSERT(rounds_.size() <= kMaxRoundsInFlight);
  LOCKSTEP_ASSERT(reported_.size() <= kMaxReported);
}

// ---- for observers ----

RoundPhase Rounds::phase_of(const RoundKey& key) const {
  if (const Round* round = rounds_.find(key)) return round->phase();
  const Cohort* cohort = views_.cohort_of(key);
  if (admission_.is_over() || (cohort == nullptr && key.cohort <= context_.view->cohort)) return RoundPhase::kPast;
  if (cohort == nullptr) return RoundPhase::kToCome;
  if (key.cohort < context_.view->cohort || cohort->early_verdicts.contains(key)) return RoundPhase::kPast;
  return is_earlier_use(key.use, cohort->uses.next(key.tag)) ? RoundPhase::kPast : RoundPhase::kToCome;
}

std::optional<RoundKey> Rounds::round_of(CallId call) const {
  const Round* const round = rounds_.find(call);
  return round == nullptr ? std::nullopt : round->key;
}

std::size_t Rounds::passing() const {
  std::size_t count = announcements_.count_if([&](const RoundKey& key, Generation attempt) {
    return views_.is_to_come(key, attempt, rounds_.find(key) != nullptr);
  });
  for (const auto& [key, reported] : reported_) {
    const Cohort* cohort = views_.cohort_of(key);
    count += cohort != nullptr && cohort->attempt_of(key) == reported.attempt ? 1 : 0;
  }
  return count;
}

}  // namespace lockstep::peer
