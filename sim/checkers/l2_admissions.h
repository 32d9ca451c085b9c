// L2, of those who join and never answer: they cost nobody else anything. Where nothing else has happened, an admission is over within
// some round trips of the moment at which all members had called admit. From each host one newcomer may hold up one admission until
// it is known that it does not answer: for a fifth of a heartbeat more.
#pragma once

#include <algorithm>
#include <set>
#include <string>

#include "sim/call.h"
#include "sim/checkers/complaint.h"
#include "sim/plan.h"
#include "sim/text.h"

namespace lockstep::sim {

class Admissions {
 public:
  explicit Admissions(const Plan& plan) {
    const NetworkOptions& net = plan.network;
    // Beside the way there and back, what busy drivers and messages that come in parts take.
    const std::int64_t drivers = 10 * (2 * net.host_delay_ns + net.revoke_delay_ns) + 2 * plan.timer_delay.ns;
    const std::int64_t bytes = 300 * static_cast<std::int64_t>(plan.peers);  // of a proposal
    const auto rate = static_cast<std::int64_t>(std::min<std::uint64_t>(net.rate_bytes_per_s, 1'000'000'000));
    const std::int64_t windows = 1 + bytes / static_cast<std::int64_t>(net.window_bytes);
    std::int64_t latency = net.latency_hi_ns;
    for (const LinkOptions& link : net.links) latency = std::max(latency, link.latency_ns);
    round_trip_ = nanoseconds(2 * (latency + net.jitter_ns) * windows + drivers + bytes * 1'000'000'000 / rate);
    least_patience_ = nanoseconds(plan.heartbeat.ns / 5);
    // Otherwise one that answers might be late, too.
    judges_ = !plan.auto_admit && !net.flow.on && plan.coordinator_after.ns == 0 && round_trip_ * 2 < least_patience_;
  }

  // `has_joined`: somebody on that host is a member: it will hold up the others as one that is lost in silence.
  void began(const Entry& entry, bool has_joined) {
    if (entry.fault == Fault::kJoin) return;
    if (entry.fault == Fault::kMute && entry.number == 0 && !has_joined) {
      mute_.insert(entry.a);
    } else {
      judges_ = false;
    }
  }
  void installed(ViewNumber view, Instant now) {
    if (view > newest_) {
      before_ = last_;
      newest_ = view;
    }
    last_ = now;
  }
  [[nodiscard]] bool judges() const { return judges_ && !mute_.empty(); }

  // A call of admit has ended well. `all_called`: when the last of the members had called it, for no number of members.
  [[nodiscard]] Complaint ended(const Call& call, Instant all_called) {
    const Instant since = std::max(all_called, before_);
    const Duration took = call.ended - since;
    const Duration calm = round_trip_ * kRoundTrips;
    if (took <= calm) return {};
    held_up_.insert(call.outcome->view);
    const auto hosts = static_cast<std::int64_t>(mute_.size());
    const Duration most = calm + (calm + least_patience_ + round_trip_ * 4) * hosts;
    const std::string who = text_of(call.peer) + "'s admit took " + std::to_string(took.ns) +
                            " ns since all members had called it, beside newcomers that do not answer: ";
    if (took > most) return who + std::to_string(most.ns) + " at most";
    if (held_up_.size() <= mute_.size()) return {};
    return who + "one more admission that they hold up than there are hosts of them";
  }

 private:
  static constexpr std::int64_t kRoundTrips = 12;
  Duration round_trip_;
  Duration least_patience_;
  bool judges_ = false;
  std::set<std::uint32_t> mute_;
  std::set<ViewNumber> held_up_;
  ViewNumber newest_;
  Instant last_;
  Instant before_;  // when the view before the newest was installed last
};

}  // namespace lockstep::sim
