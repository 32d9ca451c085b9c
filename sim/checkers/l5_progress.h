// L5: no link that is nearly dead holds a round. If the only faults are ways that pass a few bytes a second, a
// collective ends within a stated bound after the first of them and its last launch, and a member that is taken out of
// the run for a broken link has no fewer broken links than the member at the other end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/trace/event.h"
#include "sim/checkers/complaint.h"
#include "sim/plan/plan.h"
#include "sim/workload/call.h"
#include "sim/workload/liveness_bound.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

class LineProgress {
 public:
  explicit LineProgress(const Plan& plan) {
    const NetworkOptions& net = plan.network;
    std::int64_t latency = net.latency_hi_ns;
    for (const LinkOptions& link : net.links) latency = std::max(latency, link.latency_ns);
    const std::int64_t drivers = 10 * (2 * net.host_delay_ns + net.revoke_delay_ns) + 2 * plan.delays.timer.ns;
    const Duration round_trip = nanoseconds(2 * (latency + net.jitter_ns) + drivers);
    noticed_ = plan.heartbeat * kBeats + round_trip * kRoundTrips;
    rest_ = round_trip * kRoundTrips + time_of_step(plan) * kTimesOver;
    judges_ = !plan.auto_admit && !net.flow.on && plan.coordinator_after.ns == 0;
  }

  void began(const Entry& entry, Instant now) {
    if (entry.fault == Fault::kJoin) return;
    if (entry.fault != Fault::kDrip || entry.number > kNearlyNothing) judges_ = false;
    if (!judges_) return;
    drips_.push_back({pair_of(entry.a, entry.b), now, kNever});
    between_ = std::max(
        between_, nanoseconds(1'000'000'000 / static_cast<std::int64_t>(std::max<std::uint64_t>(1, entry.number))));
  }
  void ended(const Entry& entry, Instant now) {
    for (Drip& drip : drips_) {
      if (drip.hosts == pair_of(entry.a, entry.b) && drip.end == kNever) drip.end = now;
    }
  }
  [[nodiscard]] bool judges() const { return judges_ && !drips_.empty(); }

  // A collective has ended well; `last_made`: the last of its launches.
  [[nodiscard]] Complaint ended(const Call& call, Instant last_made) const {
    const Instant since = std::max(last_made, drips_.front().begin);
    const Duration most = bound();
    if (call.ended - since <= most) return {};
    return text_of(call.peer) + "'s " + text_of(call.request) + " was over " +
           std::to_string((call.ended - since).ns / 1'000'000) +
           " ms after the last launch, or the first drip: " + std::to_string(most.ns / 1'000'000) + " at most";
  }

  // The coordinator notes this. `named`: the name of a peer in texts.
  template <typename NameOf>
  [[nodiscard]] Complaint noted(const trace::Event& event, NameOf named) {
    if (event.kind == trace::Kind::kLinkReported && !is_about_slowness(event.text)) {
      for (const PeerId other : peers_) {
        if (other != event.peer && event.text.starts_with(named(other))) broken_.insert(pair_of(other, event.peer));
      }
    }
    if (event.kind != trace::Kind::kPeerLost) return {};
    Complaint wrong;
    constexpr std::string_view kIt = ": it and ";
    const std::size_t at = event.text.find(kIt);
    if (judges() && at != std::string::npos) {
      for (const PeerId other : peers_) {
        if (other == event.peer || !std::string_view(event.text).substr(at + kIt.size()).starts_with(named(other)))
          continue;
        if (links_of(event.peer) < links_of(other)) {
          wrong = text_of(event.peer) + " is taken out of the run for its link to " + text_of(other) +
                  ", which has more broken links";
        }
      }
    }
    std::erase_if(broken_, [&](const auto& pair) { return pair.first == event.peer || pair.second == event.peer; });
    std::erase(peers_, event.peer);
    return wrong;
  }
  void born(PeerId peer) { peers_.push_back(peer); }

 private:
  static constexpr std::int64_t kBeats = 12;       // to notice that a line drips, or that a new one does not come up
  static constexpr std::int64_t kRoundTrips = 24;  // to tell, to lay another ring, and to dial
  static constexpr std::int64_t kTimesOver = 4;    // that bytes are sent again, beside others
  static constexpr std::uint64_t kNearlyNothing = 64;  // bytes a second
  struct Drip {
    std::pair<std::uint32_t, std::uint32_t> hosts;
    Instant begin;
    Instant end;
  };
  template <typename T>
  static std::pair<T, T> pair_of(T a, T b) {
    return a < b ? std::pair{a, b} : std::pair{b, a};
  }
  static bool is_about_slowness(std::string_view text) { return text.find("had better not") != std::string_view::npos; }
  [[nodiscard]] std::size_t links_of(PeerId peer) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(broken_, [&](const auto& pair) { return pair.first == peer || pair.second == peer; }));
  }
  // One pair after the other may turn out to drip, as a ring is laid that needs it.
  [[nodiscard]] Duration bound() const {
    std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
    for (const Drip& drip : drips_) pairs.insert(drip.hosts);
    return (noticed_ + between_ * 2) * static_cast<std::int64_t>(pairs.size() + 1) + rest_;
  }

  Duration noticed_;
  Duration rest_;
  Duration between_;  // two bytes
  bool judges_ = false;
  std::vector<Drip> drips_;
  std::vector<PeerId> peers_;
  std::set<std::pair<PeerId, PeerId>> broken_;  // as the coordinator notes them
};

}  // namespace lockstep::sim
