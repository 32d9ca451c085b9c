// What a peer is doing between two steps, for coverage matrices and for programs that ask.
#pragma once

#include <cstdint>

namespace lockstep::peer {

// Where several hold, the peer reports the last of them in this list.
enum class Lifecycle : std::uint8_t {
  kNew,        // connect was not called
  kLooking,    // for the coordinator's address, and for a port to listen on
  kDialling,   // the coordinator
  kGreeting,   // has said who it is
  kWaiting,    // to be admitted
  kInvited,    // a proposal would admit it
  kIdle,       // a member without a call
  kInRounds,   // a member with rounds
  kAdmitting,  // has called admit
  kFrozen,     // a member; a proposal is open
  kLeaving,    // has called leave; the coordinator does not know yet
  kGoing,      // the coordinator knows
  kOver,
};
inline constexpr std::uint8_t kLifecycleCount = 13;

// How far one round is.
enum class RoundPhase : std::uint8_t {
  kToCome,    // not launched here, or not in this cohort
  kQueued,    // launched, and waits for the next cohort
  kHeld,      // waits for a proposal to be installed
  kSizes,     // all-gather, weights: rank parameters go around; sync: a state is elected
  kStarting,  // no byte of it has gone or come
  kFlowing,   // some have
  kStuck,     // cannot run here; waits for its verdict
  kDone,      // the result is in hand; waits for the commit
  kGivenUp,   // memory comes back, then it is attempted again
  kEnding,    // memory comes back, then its call completes
  kPast,      // over, or never to be launched here
};
inline constexpr std::uint8_t kRoundPhaseCount = 11;

struct Snapshot {
  Lifecycle lifecycle = Lifecycle::kNew;
  std::uint16_t phases = 0;  // of its rounds: bit n for RoundPhase n

  [[nodiscard]] bool has(RoundPhase phase) const { return ((phases >> static_cast<unsigned>(phase)) & 1U) != 0; }
};

}  // namespace lockstep::peer
