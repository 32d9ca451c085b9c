// S10: a call that its own side refuses ends the round for all members. They learn of the refusal, of the member that
// refused and of its reason, and do not wait for a time-out: where nothing else goes wrong, a call ends within a stated
// bound after the refusal and its own launch.
#pragma once

#include <algorithm>
#include <string>

#include "sim/checkers/complaint.h"
#include "sim/checkers/s2_exact_fold.h"
#include "sim/plan/plan.h"
#include "sim/workload/call.h"
#include "sim/workload/liveness_bound.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

class Refusals {
 public:
  explicit Refusals(const Plan& plan) {
    bound_ = round_trip_of(plan) * kRoundTrips + time_of_step(plan);
    judges_ = !plan.auto_admit && !plan.network.flow.on && plan.coordinator_after.ns == 0;
  }

  void began(const Entry& entry) { judges_ = judges_ && entry.fault == Fault::kRefuse; }

  // A collective has ended. `founding`: the first view of its cohort; may be null. `find`: finds the calls of members
  // for the same round.
  [[nodiscard]] Complaint ended(const Call& call, const wire::View* founding, const FindCall& find) const {
    const peer::Outcome& outcome = *call.outcome;
    if (call.of_guest) return {};  // it has reasons of its own
    if (call.refused) return check_own(call);
    if (is_out(outcome.status) || outcome.round == RoundKey{} || founding == nullptr) return {};
    for (const wire::Member& member : founding->members) {
      const Call* const theirs = member.id == call.peer ? nullptr : find(member.id, outcome.round);
      if (theirs == nullptr || !theirs->refused || !theirs->outcome) continue;
      const std::string what = text_of(outcome.round) + " of " + text_of(call.peer) + " ended with " +
                               text_of(outcome) + ", and " + text_of(member.id) + " had refused it";
      if (outcome.status == Status::kOk) continue;  // the member was lost before it could tell; see check_mismatch()
      const bool says_why = outcome.text.find(" refused its ") == std::string::npos ||
                            outcome.text.find(kWhyRefused) != std::string::npos;
      if (!says_why) return what + ": the text does not say why";
      if (!judges_) continue;
      if (outcome.status != theirs->outcome->status) return what + " with another status";
      const Duration took = call.ended - std::max(theirs->made, call.made);
      if (took > bound_) {
        return what + " " + std::to_string(took.ns) +
               " ns before, although nothing else went wrong: " + std::to_string(bound_.ns) + " ns at most";
      }
    }
    return {};
  }

 private:
  // Stop, proposal, flush and installation are two round trips; another proposal may be open when the stop arrives.
  static constexpr std::int64_t kRoundTrips = 5;

  static Complaint check_own(const Call& call) {
    const peer::Outcome& outcome = *call.outcome;
    if (is_out(outcome.status) || outcome.text == kWhyRefused) return {};
    return text_of(call.peer) + " refused its " + text_of(call.request) + ", and the call ended with " +
           text_of(outcome);
  }

  Duration bound_;
  bool judges_ = false;
};

}  // namespace lockstep::sim
