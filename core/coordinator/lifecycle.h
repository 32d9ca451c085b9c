// What the coordinator is doing between two steps, for coverage matrices. No driver needs it.
#pragma once

#include <cstdint>

namespace lockstep::coordinator {

// Where several hold, the coordinator reports the last of them in this list.
enum class Lifecycle : std::uint8_t {
  kEmpty,      // no members
  kSeeingOff,  // no members, but leavers that finish their rounds
  kQuiet,      // members, and no round that a member is done with
  kInRounds,   // a round that a member is done with
  kGathering,  // a member that has called admit
  kFounding,   // an open proposal of the first view
  kAdmitting,  // an open proposal of a view with a new cohort
  kChanging,   // an open proposal of losses, leaves, broken links or stops
  kSettling,   // an open proposal that was changed after the first answers
};
inline constexpr std::uint8_t kLifecycleCount = 9;

}  // namespace lockstep::coordinator
