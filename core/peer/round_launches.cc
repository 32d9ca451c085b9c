#include "core/peer/round_launches.h"

#include <algorithm>
#include <utility>

#include "core/base/mutant.h"
#include "core/peer/validate_call.h"
#include "core/wire/describe.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

std::optional<Refusal> RoundLaunches::validate(const Request& request) {
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

void RoundLaunches::launch(Launch in) {
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
void RoundLaunches::launch_refused(Launch in) {
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

bool RoundLaunches::stop(CallId call, const std::string& text) {
  const auto order = queue_.find(call);
  if (order) end_waiting(*order, Status::kAborted, text);
  return order.has_value();
}

void RoundLaunches::on_timer() {
  for (const std::uint64_t order : queue_.due(context_.now)) {
    const Request& request = queue_.at(order).request;
    std::string text = context_.name_of(context_.options.id);
    text.append(" timed out after ").append(std::to_string(request.timeout.ns / 1'000'000)).append(" ms in tag ");
    text.append(std::to_string(request.tag.value)).append(", before a place in the window of rounds was free");
    end_waiting(order, Status::kTimedOut, text);
  }
}

// ---- the queue (rule 43) ----

std::uint64_t RoundLaunches::place(LaunchQueue::Entry entry) {
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

// Calls of one tag begin in launch order. A sync has no neighbour that could pull it, and takes any place.
bool RoundLaunches::must_wait(const Request& request) const {
  if (queue_.count(request.tag) > 0) return true;
  const std::size_t window = context_.options.window;
  if (request.collective == Collective::kSync) return rounds_.size() >= 2 * window;
  return !queue_.empty() || rounds_.size() >= window;
}

void RoundLaunches::begin(std::uint64_t order, LaunchQueue::Entry entry) {
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
  if (!admission_.closes(order) || mutant(Mutant::kLaunchesAfterAdmit)) attempts_.enter(round);
}

// A leaver launches nothing more, and says so once all that it launched has begun. Others may wait for that with rounds
// that it will never launch, while its own wait for theirs: so it takes places beyond its window.
bool RoundLaunches::begin_waiting(bool some_ended) {
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

Round* RoundLaunches::find_or_pull(const RoundKey& key) {
  Round* const round = rounds_.find(key);
  if (round != nullptr || queue_.empty()) return round;
  pull(key);
  return rounds_.find(key);
}

// A neighbour has begun a round that waits here, or the round is over for all members: it begins, and those of the same
// tag before it.
void RoundLaunches::pull(const RoundKey& key) {
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
    if (Round* const begun = rounds_.find(order)) operations_.announce_if_silent(*begun);
  }
}

// A call has come to the queue: a neighbour may have begun its round before, or the round is over for all.
void RoundLaunches::pull_launched(Tag tag) {
  const Cohort& cohort = *views_.newest();
  if (announcements_.size() == 0 && cohort.early_verdicts.empty()) return;
  const auto last = static_cast<std::uint32_t>(queue_.count(tag) - 1);
  const RoundKey key{cohort.id, context_.options.group, tag, cohort.uses.next(tag) + last};
  if (announcements_.has(key) || cohort.early_verdicts.contains(key)) pull(key);
}

// Their calls end without a place.
void RoundLaunches::pull_decided() {
  const Cohort* const cohort = views_.newest();
  if (queue_.empty() || cohort == nullptr) return;
  std::vector<RoundKey> decided;  // to pull one takes its verdict from the cohort
  for (const auto& [key, verdict] : cohort->early_verdicts) decided.push_back(key);
  for (const RoundKey& key : decided) pull(key);
}

void RoundLaunches::pull_announced() {
  pulls_wait_ = false;
  pull_decided();
  for (const auto& [key, attempt] : announcements_.announced()) {
    if (rounds_.find(key) == nullptr && !queue_.empty()) pull(key);
  }
}

// Of the calls that all peers have launched, the first in the order of tags finds a place everywhere, whatever else
// waits for others: so one round at least goes on, in whatever orders peers launch. False: it may not begin now.
bool RoundLaunches::pass(Tag tag) {
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
void RoundLaunches::pass_some() {
  const auto may_enter = [&](std::uint64_t order) { return !admission_.closes(order); };
  if (const std::optional<Tag> tag = queue_.first_in_turn(may_enter)) pass(*tag);
}

// As RoundStops::end_early(): the use of the tag is spent, and ends for the others by the same stop once it has a key.
void RoundLaunches::end_waiting(std::uint64_t order, Status status, const std::string& text) {
  const LaunchQueue::Entry& entry = queue_.at(order);
  if (entry.request.watch) states_.forget_watched();
  Outcome outcome = ends_.outcome_of(entry.request, status, text);
  const CallId call = entry.call;
  queue_.stop(order, StopRequest{status, text.substr(0, kMaxTextBytes)});
  context_.complete(call, std::move(outcome));
}

}  // namespace lockstep::peer
