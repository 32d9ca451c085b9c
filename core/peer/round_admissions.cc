#include "core/peer/round_admissions.h"

#include <algorithm>

#include "core/wire/describe.h"

namespace lockstep::peer {

void RoundAdmissions::begin() {
  say();
  if (admission_.has_said_admit()) return;
  for (const auto& [key, attempt] : announcements_.announced()) refuse_unlaunched(key, attempt);
}

void RoundAdmissions::say() {
  if (queue_.has_until(admission_.admits_after())) return;
  if (admission_.must_say_admit(views_.proposal().has_value())) admission_.say_admit(rounds_.open_rounds());
}

void RoundAdmissions::begin_automatically() {
  if (admission_.begin_automatic()) say();
}

void RoundAdmissions::join() {
  const Cohort* cohort = views_.newest();
  if (cohort == nullptr || !admission_.joins(*cohort)) return;
  if (admission_.leaves() && !admission_.admits()) return close_waiting();
  begin_automatically();
}

// This peer leaves while the others admit newcomers automatically: what it has not begun will not be launched by them.
void RoundAdmissions::close_waiting() {
  if (queue_.empty()) return;
  for (LaunchQueue::Entry& entry : queue_.clear()) {
    context_.complete(entry.call, ends_.outcome_of(entry.request, Status::kCohortClosed,
                                                   "the next cohort begins without this peer, which leaves"));
  }
}

void RoundAdmissions::on_admitting(const wire::Admitting& in) {
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
  join();
  for (auto& [order, round] : rounds_) {
    if (round.open()) refuse_if_closed(round);
  }
}

// Checks the rounds again that were refused because of the member. A stop that was heeded comes as a verdict.
void RoundAdmissions::refuse_anew() {
  for (auto& [order, round] : rounds_) {
    if (!round.stop || round.stop->status != Status::kCohortClosed || !round.open()) continue;
    RoundStops::void_stop(round);
    refuse_if_closed(round);
  }
}

// Rule 21: a member that has called admit will never launch this round.
void RoundAdmissions::refuse_if_closed(Round& round) {
  if (round.stop) return;
  const Cohort& cohort = *views_.cohort_of(*round.key);
  const Cohort::Roster& members = cohort.generations.at(round.generation);
  // While an attempt is given up whose successor will be below its minimum: members that have called admit have heard
  // of that.
  if (members.ring->size() < round.request.minimum_world) return;
  if (cohort.id == context_.view->cohort) {
    join();
    if (admission_.goes_on(cohort)) return;
  }
  const PeerId closing = member_that_closes(round, cohort, members);
  if (closing.is_nobody()) {
    round.unclosed = {*round.key, round.generation, cohort.admit_changes};
  } else {
    stops_.ask_to_stop(round, Status::kCohortClosed, wire::not_launched(context_.name_of(closing), round.key->tag));
  }
}

// Returns a member that has called admit without launching this round, or nobody if there is none. Each of a thousand
// members hears of a thousand admits, so an admit that is known not to close the round is not looked at again.
PeerId RoundAdmissions::member_that_closes(const Round& round, const Cohort& cohort, const Cohort::Roster& members) {
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

// Rule 21: this peer has called admit, and says so once its queue is empty. It will not launch this round.
void RoundAdmissions::refuse_unlaunched(const RoundKey& key, Generation attempt) {
  const Cohort* cohort = views_.newest();
  if (admission_.admits_after() == 0 || cohort == nullptr || key.cohort != cohort->id) return;
  if (rounds_.find(key) != nullptr || is_earlier_use(key.use, cohort->uses.next(key.tag))) return;
  if (key.use - cohort->uses.next(key.tag) < queue_.count(key.tag)) {
    const std::uint64_t order = queue_.nth(key.tag, key.use - cohort->uses.next(key.tag));
    if (order <= admission_.admits_after()) return;
  }
  context_.session.say(wire::StopRound{key, attempt, Status::kCohortClosed, false,
                                       wire::not_launched(context_.name_of(context_.options.id), key.tag)});
}

}  // namespace lockstep::peer
