// Calls and their ends, for checkers to look at.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "sim/workload/call.h"

namespace lockstep::sim {

inline constexpr PeerId kA{0xa, 1};
inline constexpr PeerId kB{0xb, 2};
inline constexpr PeerId kC{0xc, 3};
inline constexpr RoundKey kRound{CohortId{1}, GroupId{0}, Tag{5}, 0};

inline peer::Outcome committed(std::vector<PeerId> contributors) {
  peer::Outcome outcome;
  outcome.round = kRound;
  outcome.world = static_cast<std::uint32_t>(contributors.size());
  outcome.hash = 99;
  outcome.contributors = std::make_shared<const std::vector<PeerId>>(std::move(contributors));
  return outcome;
}

inline peer::Outcome aborted(Status status) {
  peer::Outcome outcome;
  outcome.round = kRound;
  outcome.status = status;
  outcome.text = "because";
  return outcome;
}

inline Call ended_call(PeerId peer, peer::Outcome outcome) {
  Call call;
  call.peer = peer;
  call.outcome = std::move(outcome);
  return call;
}

}  // namespace lockstep::sim
