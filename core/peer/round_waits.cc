#include "core/peer/round_waits.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

void RoundWaits::begin(const Round& round) {
  if (look_at_ != kNever) return;
  look_at_ = std::max(round.launched + context_.long_wait() / 2, context_.now + context_.options.link_heartbeat);
}

// The oldest calls that wait long, and have moved no byte since the last look, are told, once in each attempt. Looks
// are three heartbeats apart, however many calls are in flight.
void RoundWaits::on_timer() {
  if (context_.now < look_at_) return;
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

void RoundWaits::tell_wait(Round& round) {
  if (round.attempt) round.attempt->told_wait = true;
  context_.session.say(wire::CallWaits{*round.key,
                                       round.generation,
                                       round.what.collective,
                                       wire::CallStage::kCalled,
                                       context_.now - round.launched,
                                       {}});
}

void RoundWaits::on_awaited(const wire::CallAwaited& in, Round* round, RoundPhase phase, const std::string& transfer) {
  if (round != nullptr && !round->has_outcome()) {
    if (round->generation == in.attempt) tell_wait(*round);
    return;
  }
  wire::CallWaits answer{in.key, in.attempt, in.collective, wire::CallStage::kToCome, {}, {}};
  if (rounds_.find_reported(in.key) != nullptr) {  // the coordinator does not know yet that it is over
    answer.stage = wire::CallStage::kCalled;
  } else if (round != nullptr || phase == RoundPhase::kPast) {
    answer.stage = wire::CallStage::kOver;
  } else {
    const Cohort* const cohort = views_.cohort_of(in.key);
    if (cohort == nullptr || cohort->attempt_of(in.key) != in.attempt) return;
    answer.busy = std::string(cut(busy(in.key.tag, transfer), kMaxBusyBytes));
  }
  context_.session.say(answer);
}

// Others wait for this peer's call with this tag: the call that this peer is in instead.
std::string RoundWaits::busy(Tag tag, const std::string& transfer) const {
  if (queue_.count(tag) > 0) return "full: its call waits for a place among the rounds in flight";
  if (admission_.admits()) return "in admit";
  for (const auto& [order, round] : rounds_) {
    if (round.open()) return "in " + words_of(round.request);
  }
  return transfer.empty() ? "in no call" : "in " + transfer;
}

}  // namespace lockstep::peer
