// The part that a member takes in a sync of the shared state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep::state {

enum class Strategy : std::uint8_t {
  kPopular,      // votes, and takes over the winning state
  kSendOnly,     // never takes over a state: its own state wins, or the round ends
  kReceiveOnly,  // never votes, never sends
  kNewest,       // votes also as a newcomer, if its revision is higher than that of every member
};
inline constexpr std::uint8_t kStrategyCount = 4;
constexpr std::string_view name_of(Strategy strategy) {
  constexpr std::string_view kNames[] = {"popular", "send_only", "receive_only", "newest"};
  return kNames[static_cast<std::size_t>(strategy)];
}

}  // namespace lockstep::state
