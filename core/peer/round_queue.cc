// How launched calls wait for their turn, and who goes first (rule 43 of docs/protocol.md).
#include <algorithm>
#include <utility>

#include "core/base/mutant.h"
#include "core/peer/rounds.h"
#include "core/wire/describe.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

// Calls of one tag begin in launch order. A sync has no neighbour that could pull it, and takes any place.
bool Rounds::must_wait(const Request& request) const {
  if (queue_.count(request.tag) > 0) return true;
  const std::size_t window = context_.options.window;
  if (request.collective == Collective::kSync) return rounds_.size() >= 2 * window;
  return !queue_.empty() || rounds_.size() >= window;
}

std::uint64_t Rounds::place(LaunchQueue::Entry entry) {
  const bool waits = must_wait(entry.request);
  const std::uint64_t order = rounds_.launch();
  if (!waits) {
    begin(order, std::move(entry));
    return order;
  }
  const Tag tag = entry.request.tag;
  queue_.add(order, std::move(entry));
  pull_launched(tag);
  if (queue_.count(tag) == 1) pass(tag);
  return order;
}

void Rounds::begin(std::uint64_t order, LaunchQueue::Entry entry) {
  const bool in_order = order > std::exchange(last_begun_, std::max(last_begun_, order)) && !queue_.has_until(order);
  Round& round = rounds_.begin(order);
  round.call = entry.call;
  round.request = std::move(entry.request);
  round.what = entry.what;
  round.launched = entry.launched;
  round.limit = entry.limit;
  round.deadline = round.limit;
  if (entry.stop) {
    round.stop = std::move(entry.stop);
    round.deadline = kNever;
    round.completed_early = true;
  } else {
    if (round.request.state != nullptr && round.request.state->restored) states_.restored(round.request.tag);
    syncs_.watch(round, in_order);
  }
  // After admit, the round belongs to the next cohort (rule 21).
  if (!admission_.closes(order) || mutant(Mutant::kLaunchesAfterAdmit)) enter(round);
}

// `some_ended`: places have become free since the last time. True: calls have begun.
//
// A leaver launches nothing more, and says so once all that it launched has begun. Others may wait for that with rounds
// that it will never launch, while its own wait for theirs: so it takes places beyond its window.
bool Rounds::begin_waiting(bool some_ended) {
  const std::size_t before = queue_.size();
  const std::size_t places = admission_.leaves() ? std::size_t{2} * kRoundWindow : context_.options.window;
  while (!queue_.empty() && rounds_.size() < places) {
    const std::uint64_t order = queue_.nth(queue_.first_request().tag, 0);
    begin(order, queue_.take(order));
  }
  if (some_ended && pulls_wait_) pull_announced();
  if (some_ended) pass_some();
  return queue_.size() < before;
}

Round* Rounds::find_or_pull(const RoundKey& key) {
  Round* const round = rounds_.find(key);
  if (round != nullptr || queue_.empty()) return round;
  pull(key);
  return rounds_.find(key);
}

// A neighbour has begun a round that waits here, or the round is over for all members: it begins, and those of the same
// tag before it.
void Rounds::pull(const RoundKey& key) {
  const Cohort* cohort = views_.newest();
  if (cohort == nullptr || key.cohort != cohort->id || key.group != cohort->group) return;
  const std::uint32_t next = cohort->uses.next(key.tag);
  if (is_earlier_use(key.use, next)) return;
  const std::size_t ahead = key.use - next;
  if (queue_.count(key.tag) <= ahead) return;
  const bool ends_at_once = ahead == 0 && cohort->early_verdicts.contains(key);
  if (!ends_at_once && rounds_.size() + ahead >= std::size_t{2} * context_.options.window) {
    pulls_wait_ = true;
    return;
  }
  if (admission_.closes(queue_.nth(key.tag, ahead))) return;
  for (std::size_t n = 0; n <= ahead; ++n) {
    const std::uint64_t order = queue_.nth(key.tag, 0);
    begin(order, queue_.take(order));
    // The neighbour on the other side may keep this call in its queue, too.
    if (Round* const begun = rounds_.find(order)) announce_if_silent(*begun);
  }
}

// A peer that neither sends the first segment of a small round nor asks for one says nothing: its upstream neighbour,
// which may keep the call in its queue, would never begin it.
void Rounds::announce_if_silent(Round& round) {
  if (!round.is<stage::Running>() || !std::exchange(round.attempt->silent, false)) return;
  if (round.bytes_moved() == 0) greetings_.announce(round);
}

void Rounds::announce_silent() {
  announce_at_ = kNever;
  for (auto& [order, round] : rounds_) announce_if_silent(round);
}

// A call has come to the queue: a neighbour may have begun its round before, or the round is over for all.
void Rounds::pull_launched(Tag tag) {
  const Cohort& cohort = *views_.newest();
  if (announcements_.size() == 0 && cohort.early_verdicts.empty()) return;
  const auto last = static_cast<std::uint32_t>(queue_.count(tag) - 1);
  const RoundKey key{cohort.id, context_.options.group, tag, cohort.uses.next(tag) + last};
  if (announcements_.has(key) || cohort.early_verdicts.contains(key)) pull(key);
}

// Rounds that wait here may be over for all members: their calls end without a place.
void Rounds::pull_decided() {
  const Cohort* const cohort = views_.newest();
  if (queue_.empty() || cohort == nullptr) return;
  std::vector<RoundKey> decided;  // to pull one takes its verdict from the cohort
  for (const auto& [key, verdict] : cohort->early_verdicts) decided.push_back(key);
  for (const RoundKey& key : decided) pull(key);
}

void Rounds::pull_announced() {
  pulls_wait_ = false;
  pull_decided();
  for (const auto& [key, attempt] : announcements_.announced()) {
    if (rounds_.find(key) == nullptr && !queue_.empty()) pull(key);
  }
}

// Of the calls that all peers have launched, the first in the order of tags finds a place everywhere, whatever else
// waits for others: so one round at least goes on, in whatever orders peers launch. False: it may not begin now.
bool Rounds::pass(Tag tag) {
  if (mutant(Mutant::kNonePasses) || queue_.count(tag) == 0) return false;
  const std::uint64_t order = queue_.nth(tag, 0);
  if (admission_.closes(order)) return false;
  std::size_t passing = 0;
  for (const auto& [begun, round] : rounds_) {
    if (!round.passing) continue;
    ++passing;
    if (LaunchQueue::turn_of(round.request.tag) <= LaunchQueue::turn_of(tag)) return false;
  }
  if (passing >= kMaxPassingRounds) return false;
  begin(order, queue_.take(order));
  rounds_.at(order).passing = true;
  return true;
}

// A place has become free. The calls that were launched after admit wait for the next cohort.
void Rounds::pass_some() {
  const auto may_enter = [&](std::uint64_t order) { return !admission_.closes(order); };
  if (const std::optional<Tag> tag = queue_.first_in_turn(may_enter)) pass(*tag);
}

// As end_queued(): the use of the tag is spent, and ends for the others by the same stop once it has a key.
void Rounds::end_waiting(std::uint64_t order, Status status, const std::string& text) {
  const LaunchQueue::Entry& entry = queue_.at(order);
  if (entry.request.watch) states_.forget_watched();
  Outcome outcome = ends_.outcome_of(entry.request, status, text);
  const CallId call = entry.call;
  queue_.stop(order, StopRequest{status, text.substr(0, kMaxTextBytes)});
  context_.complete(call, std::move(outcome));
}

// This peer leaves while the others admit newcomers automatically: what it has not begun will not be launched by them.
void Rounds::close_waiting() {
  if (queue_.empty()) return;
  for (LaunchQueue::Entry& entry : queue_.clear()) {
    context_.complete(entry.call, ends_.outcome_of(entry.request, Status::kCohortClosed,
                                                   "the next cohort begins without this peer, which leaves"));
  }
}

// Rule 21: this peer has called admit, and says so once its queue is empty. It will not launch this round.
void Rounds::refuse_unlaunched(const RoundKey& key, Generation attempt) {
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
