// L6: a wait is explained. If the programs of members call late, or not at all, and nothing else goes wrong, the
// coordinator says in time for whom a collective waits, and it names no member that has called (rule 54).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/trace/event.h"
#include "core/wire/limits.h"
#include "sim/checkers/complaint.h"
#include "sim/plan/plan.h"
#include "sim/workload/call.h"
#include "sim/workload/liveness_bound.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

class ExplainedWaits {
 public:
  explicit ExplainedWaits(const Plan& plan) {
    news_ = round_trip_of(plan) * kRoundTrips;
    noticed_ = plan.heartbeat * (kLongWaitBeats * 2 + kBeats) + news_;
    noticed_after_bytes_ = plan.heartbeat * (kLongWaitBeats + kBeats) + news_;
    const std::size_t calls = std::max<std::size_t>(plan.program.work.size(), plan.program.ops_per_step);
    judges_ = !plan.auto_admit && !plan.network.flow.on && plan.coordinator_after.ns == 0 && plan.gangs.groups == 1 &&
              plan.links.window == kRoundWindow && calls <= kMaxWaitsTold;
  }

  void began(const Entry& entry) { judges_ = judges_ && (entry.fault == Fault::kSkip || entry.fault == Fault::kJoin); }
  [[nodiscard]] bool judges() const { return judges_; }
  // A member that called the round after this time may be named: it called while the coordinator asked.
  [[nodiscard]] Instant surely_known(Instant now) const { return now - news_; }

  // The coordinator has said that members of a round are missing. `called`: members that had called it at the time of
  // surely_known(). `members`: of the group.
  [[nodiscard]] Complaint told(const trace::Event& event, std::size_t called, std::size_t members) {
    told_.insert(event.round);
    if (!judges_ || event.number + called <= members) return {};
    return text_of(event.round) + " is said to wait for " + std::to_string(event.number) + " of " +
           std::to_string(members) + " members, and " + std::to_string(called) + " had called it: " + event.text;
  }

  // A collective has ended. `last`: the last of the other members' calls; the end, if one has not called. `before`: the
  // newest call before that. A call may move bytes of the round (rule 54): the next look, within three heartbeats, sees
  // them, and the look after that, three heartbeats later, tells of the wait.
  [[nodiscard]] Complaint ended(const Call& call, Instant last, Instant before) const {
    const peer::Outcome& outcome = *call.outcome;
    if (!judges_ || call.refused || call.of_guest || is_out(outcome.status) || outcome.retries > 0) return {};
    if (outcome.round == RoundKey{} || call.launch.cohort != outcome.round.cohort) return {};
    const Instant due = std::max(call.made + noticed_, before + noticed_after_bytes_);
    if (last <= due || told_.contains(outcome.round)) return {};
    return text_of(call.peer) + " waited " + std::to_string((last - call.made).ns / 1'000'000) + " ms in " +
           text_of(outcome.round) + " for a member that had not called it, and nobody was told: " +
           std::to_string((due - call.made).ns / 1'000'000) + " ms at most";
  }

 private:
  static constexpr std::int64_t kRoundTrips = 3;  // a question and its answer, and the way of the news
  static constexpr std::int64_t kBeats = 2;       // a proposal may be open when the call is due
  Duration news_;
  Duration noticed_;              // from a call
  Duration noticed_after_bytes_;  // from the last call that moves bytes
  bool judges_ = false;
  std::set<RoundKey> told_;
};

}  // namespace lockstep::sim
