// P3: a single fault costs a few round trips. If one process dies, or all streams between two hosts are reset, or a bit
// flips on the way between two peers, once, and nothing else happens, a collective ends within a stated bound after the
// fault and its last launch. It waits for no silence, and for none of the time-outs that L1 allows.
#pragma once

#include <algorithm>
#include <string>

#include "sim/checkers/complaint.h"
#include "sim/plan/plan.h"
#include "sim/workload/call.h"
#include "sim/workload/liveness_bound.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

class Recovery {
 public:
  explicit Recovery(const Plan& plan) {
    const NetworkOptions& net = plan.network;
    bound_ = round_trip_of(plan) * kRoundTrips + kRedial + time_of_step(plan) * kTimesOver;
    judges_ = !plan.auto_admit && !net.flow.on && plan.coordinator_after.ns == 0 && bound_ < plan.heartbeat * kMost;
  }

  // `hits`: the fault finds a process, or streams.
  void began(const Entry& entry, bool hits, Instant now) {
    const bool flips = entry.fault == Fault::kFlip && entry.number <= 1;  // later: see flipped()
    if (entry.fault == Fault::kJoin || flips || !hits) return;
    const bool reset = entry.fault == Fault::kReset && entry.a != entry.b && entry.number <= 1;
    if ((entry.fault != Fault::kCrash && !reset) || broke_ != kNever) judges_ = false;
    broke_ = now;
  }
  void flipped(Instant now) {
    if (broke_ != kNever) judges_ = false;
    broke_ = now;
  }
  [[nodiscard]] bool judges() const { return judges_ && broke_ != kNever; }

  // A collective has ended well.
  [[nodiscard]] Complaint ended(const Call& call, Instant last_made) const {
    if (call.ended <= broke_) return {};
    const Duration took = call.ended - std::max(broke_, last_made);
    if (took <= bound_) return {};
    return text_of(call.peer) + "'s " + text_of(call.request) + " was over " + std::to_string(took.ns) +
           " ns after the last launch, or the only thing that went wrong: " + std::to_string(bound_.ns) + " at most";
  }

 private:
  static constexpr std::int64_t kRoundTrips = 12;
  static constexpr std::int64_t kTimesOver = 4;  // that bytes are sent again, beside others
  static constexpr std::int64_t kMost = 4;       // heartbeats: half of a link's silence, less than a peer's
  static constexpr Duration kRedial = milliseconds(20);
  Duration bound_;
  bool judges_ = false;
  Instant broke_ = kNever;
};

}  // namespace lockstep::sim
