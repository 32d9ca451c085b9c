#include "core/peer/rounds.h"

#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

namespace {

// "1800 s", "250 ms".
std::string time_text(Duration time) {
  const std::int64_t ms = time.ns / 1'000'000;
  return ms > 0 && ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

}  // namespace

Rounds::Rounds(Context& context, Views& views, Admission& admission, LocalStates& states)
    : context_(context),
      views_(views),
      admission_(admission),
      states_(states),
      queue_(context.options.queued_calls),
      syncs_(context, states, views),
      greetings_(context, announcements_),
      ends_(context, admission, states, syncs_, announcements_),
      links_(context, views, rounds_),
      stops_(context, ends_),
      admissions_(context, views, admission, {rounds_, queue_, announcements_}, ends_, stops_),
      commits_(context, views, admission, rounds_, ends_, syncs_, admissions_),
      waits_(context, views, admission, rounds_, queue_),
      operations_(context, rounds_, announcements_, greetings_, stops_, commits_),
      attempts_(context, views, rounds_, {ends_, syncs_, stops_, admissions_, commits_, links_, waits_, operations_}),
      launches_(context, views, admission, {rounds_, queue_, announcements_, states},
                {syncs_, ends_, operations_, attempts_}),
      traffic_(context, views, {rounds_, announcements_, states},
               {syncs_, greetings_, stops_, admissions_, commits_, operations_, launches_}) {}

// ---- calls ----

bool Rounds::stop(CallId call, const std::string& why) {
  std::string text = "aborted by " + context_.name_of(context_.options.id) + ": " + why;
  if (launches_.stop(call, text)) return true;
  Round* const round = rounds_.find(call);
  if (round != nullptr) stops_.ask_to_stop(*round, Status::kAborted, std::move(text));
  return round != nullptr;
}

std::optional<Admission::RunEnds> Rounds::on_timer() {
  operations_.on_timer();
  waits_.on_timer();
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
    stops_.ask_to_stop(round, Status::kTimedOut, std::move(text));
  }
  launches_.on_timer();
  return std::nullopt;
}

void Rounds::on_job_done(const Jobs::Owner& owner, const JobDone& in) {
  Round& round = rounds_.at(owner.id);
  if (owner.use == Jobs::Use::kWatch) {
    if (syncs_.on_watch_job_done(round, in)) commits_.done_if_complete(round);
    return;
  }
  if (round.sync) return syncs_.on_job_done(round, in);
  operations_.on_job_done(round, in);
}

std::string Rounds::on_verdict(const wire::Verdict& verdict, bool rejoins) {
  if (verdict.key.group != context_.options.group) return {};
  const wire::Commit commit{verdict.key, verdict.attempt, verdict.hash, false, verdict.text};
  if (rounds_.find_reported(verdict.key) != nullptr) {
    if (verdict.status != Status::kOk) return "took back a round that all members had agreed on";
    return commits_.on_commit(commit);
  }
  Round* round = rounds_.find(verdict.key);
  if (round != nullptr) {
    if (round->has_outcome()) return {};
    if (verdict.status == Status::kOk) return commits_.on_commit(commit);
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

// Sends the requests that can be sent, and reports complete states.
void Rounds::drive_syncs() {
  std::optional<std::set<PeerId>> linked;
  for (auto& [order, round] : rounds_) {
    if (!round.sync || !round.attempted() || round.sync->partners().empty()) continue;
    if (!linked) linked = context_.mesh.linked();
    syncs_.ask(round, *linked);
    if (auto why = syncs_.stranded(round)) stops_.ask_to_stop(round, Status::kAborted, std::move(*why));
    syncs_.done_if_complete(round);
  }
}

// ---- changes of the membership ----

void Rounds::enter_queued() {
  for (auto& [order, round] : rounds_) {
    if (round.is<stage::Queued>() && !admission_.admits()) attempts_.enter(round);
  }
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
    if ((round.is<stage::Queued>() && !admission_.waits(order)) || round.requeues()) attempts_.enter(round);
  }
}

void Rounds::forget_stale_announcements() {
  announcements_.forget_if([&](const RoundKey& key, Generation attempt) {
    return views_.is_stale(key, attempt, rounds_.find(key) != nullptr);
  });
}

void Rounds::go_on() {
  launches_.pull_decided();
  for (auto& [order, round] : rounds_) {
    if (round.is<stage::Held>()) attempts_.begin(round);
    syncs_.claim_if_digested(round);
    if (round.is<stage::Running>()) commits_.done_if_complete(round);
  }
  admissions_.say();
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
  rounds_.forget_reported();
}

// ---- long waits ----

void Rounds::on_awaited(const wire::CallAwaited& in, const std::string& transfer) {
  if (in.missing > 0) {
    return context_.note({.kind = trace::Kind::kCallWaits,
                          .view = {},
                          .peer = {},
                          .round = in.key,
                          .number = in.missing,
                          .text = in.text});
  }
  Round* const round = launches_.find_or_pull(in.key);
  waits_.on_awaited(in, round, phase_of(in.key), transfer);
}

// ---- the end ----

bool Rounds::drive_ends() {
  bool unkept = false;
  bool ended = false;
  do {
    ended = drive_ends_once(unkept);
  } while ((ended || !queue_.empty()) && launches_.begin_waiting(ended));
  if (admission_.admits()) admissions_.say();
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
      if (step == RoundEnds::Step::kAgain) attempts_.begin(round);
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
  LOCKSTEP_ASSERT(rounds_.reported().size() <= kMaxReported);
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
  for (const auto& [key, reported] : rounds_.reported()) {
    const Cohort* cohort = views_.cohort_of(key);
    count += cohort != nullptr && cohort->attempt_of(key) == reported.attempt ? 1 : 0;
  }
  return count;
}

}  // namespace lockstep::peer
