// L2, for newcomers that join and do not answer: no other peer pays for them. If nothing else has happened, an
// admission ends within some round trips after the last member called admit and the rounds that were called before
// have ended. A newcomer that never answers does not delay an admission. A newcomer that answers once and not again may
// delay one admission by a fifth of a heartbeat; from then on its host is suspect, and newcomers from a suspect host
// may delay others by at most a fiftieth of a heartbeat.
#pragma once

#include <algorithm>
#include <set>
#include <string>

#include "sim/checkers/complaint.h"
#include "sim/plan/plan.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

class Admissions {
 public:
  explicit Admissions(const Plan& plan) {
    const NetworkOptions& net = plan.network;
    // Time beyond the round trip: busy drivers, and messages that arrive in parts.
    const std::int64_t drivers = 10 * (2 * net.host_delay_ns + net.revoke_delay_ns) + 2 * plan.delays.timer.ns;
    const std::int64_t bytes = 300 * static_cast<std::int64_t>(plan.peers);  // of a proposal
    const auto rate = static_cast<std::int64_t>(std::min<std::uint64_t>(net.rate_bytes_per_s, 1'000'000'000));
    const std::int64_t windows = 1 + bytes / static_cast<std::int64_t>(net.window_bytes);
    std::int64_t latency = net.latency_hi_ns;
    for (const LinkOptions& link : net.links) latency = std::max(latency, link.latency_ns);
    round_trip_ = nanoseconds(2 * (latency + net.jitter_ns) * windows + drivers + bytes * 1'000'000'000 / rate);
    least_patience_ = nanoseconds(plan.heartbeat.ns / 5);
    least_of_suspect_ = nanoseconds(plan.heartbeat.ns / 50);
    // Otherwise a newcomer that answers might be late, too.
    judges_ = !plan.auto_admit && !net.flow.on && plan.coordinator_after.ns == 0 && round_trip_ * 2 < least_patience_;
  }

  // `runs`: a process runs on the host, and may have answered already. `is_member`: the process is a member, and delays
  // the others as a member that falls silent does.
  void began(const Entry& entry, bool runs, bool is_member) {
    if (entry.fault == Fault::kJoin) return;
    if (entry.fault != Fault::kMute || entry.number > 1 || is_member) {
      judges_ = false;
    } else if (entry.number == 1 || runs) {
      answers_once_.insert(entry.a);
    } else {
      has_mute_ = true;
    }
  }
  void installed(std::uint32_t host, ViewNumber view, Instant now) {
    if (view > newest_) {
      before_ = last_;
      newest_ = view;
    }
    last_ = now;
    if (answers_once_.contains(host)) judges_ = false;  // a member now
  }
  [[nodiscard]] bool judges() const { return judges_ && (has_mute_ || !answers_once_.empty()); }

  // A call of admit that asked for no number of members has succeeded. `ready`: the time at which the last member had
  // called admit, and the rounds that were called before had ended.
  [[nodiscard]] Complaint ended(const Call& call, Instant ready) {
    const Instant since = std::max(ready, before_);
    const Duration took = call.ended - since;
    const Duration calm = round_trip_ * kRoundTrips;
    if (took <= calm) return {};
    const auto hosts = static_cast<std::int64_t>(answers_once_.size());
    const auto beside = [&](Duration patience) { return calm + (patience + round_trip_ * kRoundTripsOfHost) * hosts; };
    const Duration most = beside(least_patience_);
    const std::string who = text_of(call.peer) + "'s admit took " + std::to_string(took.ns) +
                            " ns since all members had called it and their rounds had ended, beside newcomers that do "
                            "not answer: ";
    if (took > most) return who + std::to_string(most.ns) + " at most";
    if (took <= beside(least_of_suspect_)) return {};
    held_up_.insert(call.outcome->view);
    if (held_up_.size() <= answers_once_.size()) return {};
    return who + "one more admission that they hold up than there are hosts of them";
  }

 private:
  static constexpr std::int64_t kRoundTrips = 12;
  static constexpr std::int64_t kRoundTripsOfHost = 6;  // beside its patience: the proposal that goes on without it
  Duration round_trip_;
  Duration least_patience_;
  Duration least_of_suspect_;
  bool judges_ = false;
  bool has_mute_ = false;                 // a host never answers
  std::set<std::uint32_t> answers_once_;  // hosts whose newcomers may answer the first proposal and nothing later
  std::set<ViewNumber> held_up_;
  ViewNumber newest_;
  Instant last_;
  Instant before_;  // time of the last installation of the second newest view
};

}  // namespace lockstep::sim
