// How the coordinator stands between two steps, for those who look on. No driver needs it.
#pragma once

#include <cstdint>

namespace lockstep::coordinator {

// Where several hold, the later one in this list is told.
enum class Posture : std::uint8_t {
  kEmpty,      // nobody is in
  kSeeingOff,  // nobody is in, but leavers finish their rounds
  kQuiet,      // there are members
  kInRounds,   // somebody is done with a round
  kGathering,  // somebody has called admit
  kFounding,   // the first view is proposed
  kAdmitting,  // a view with a new cohort is proposed
  kChanging,   // losses, leaves, broken links or stops are proposed
  kSettling,   // proposed again, as the first answers have changed a verdict
};
inline constexpr std::uint8_t kPostureCount = 9;

}  // namespace lockstep::coordinator
