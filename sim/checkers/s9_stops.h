// S9, stops are limited: no peer ends more rounds by stops than rule 67 of docs/protocol.md allows; and none is taken
// out of the run for that before it has called so often. Counts the rounds whose end names the peer that stopped them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/trace/event.h"
#include "core/wire/limits.h"
#include "sim/checkers/complaint.h"
#include "sim/plan/plan.h"

namespace lockstep::sim {

inline constexpr std::uint32_t kStopsPerSecondOfStoppers = 1;

class Stops {
 public:
  explicit Stops(const Plan& plan)
      : at_once_(plan.program.stops_at_once == 0 ? kMaxStopsAtOnce : plan.program.stops_at_once),
        per_second_(plan.program.stops_at_once == 0 ? kStopsPerSecond : kStopsPerSecondOfStoppers),
        judges_(plan.gangs.size == 1) {}

  // The program of a peer makes a collective call.
  void called(PeerId peer) { calls_[peer] += 1; }

  // Judges an event of the coordinator.
  [[nodiscard]] Complaint noted(const trace::Event& event, Instant now) {
    if (!judges_) return {};  // one stop ends the rounds of all groups of a gang
    if (event.kind == trace::Kind::kRoundEnded) return ended(event.text, now);
    constexpr std::string_view kReason = ": stopped more than ";
    if (event.kind != trace::Kind::kPeerLost || event.status != Status::kProtocolError) return {};
    if (event.text.find(kReason) == std::string::npos) return {};
    const auto calls = calls_.find(event.peer);
    if (calls != calls_.end() && calls->second > at_once_) return {};
    return "a peer is taken out of the run for stopping too many rounds, and has called less often than it may stop";
  }

 private:
  struct Stopped {
    std::uint64_t rounds = 0;
    Instant since;
  };

  [[nodiscard]] Complaint ended(std::string_view text, Instant now) {
    constexpr std::string_view kBy = "aborted by ";
    if (!text.starts_with(kBy)) return {};
    text.remove_prefix(kBy.size());
    const std::string name(text.substr(0, text.find(": ")));
    Stopped& stopped = stopped_.try_emplace(name, Stopped{0, now}).first->second;
    stopped.rounds += 1;
    // The stop that is one too many still ends its round.
    const std::uint64_t most =
        at_once_ + 1 + static_cast<std::uint64_t>((now - stopped.since).ns / seconds(1).ns + 1) * per_second_;
    if (stopped.rounds <= most) return {};
    return name + " has stopped " + std::to_string(stopped.rounds) + " rounds, and may stop " +
           std::to_string(most - 1);
  }

  std::uint64_t at_once_;
  std::uint64_t per_second_;
  bool judges_;
  std::map<PeerId, std::uint64_t> calls_;
  std::map<std::string, Stopped> stopped_;
};

}  // namespace lockstep::sim
