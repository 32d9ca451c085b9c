// References to memory by name. Core passes references around; only drivers turn them into addresses.
#pragma once

#include <compare>
#include <cstdint>

#include "core/base/ids.h"

namespace lockstep {

struct BufferRef {
  BufferId id;
  std::uint64_t offset = 0;  // bytes from the start of the buffer
  std::uint64_t length = 0;  // bytes

  constexpr auto operator<=>(const BufferRef&) const = default;

  [[nodiscard]] constexpr BufferRef slice(std::uint64_t at, std::uint64_t bytes) const {
    return {id, offset + at, bytes};
  }
};

// Every driver has these two buffers, each at least kStandingBufferBytes long. Payloads that are not needed are read
// into the sink. The zeros fill the rest of a frame after its sender withdrew the payload.
inline constexpr BufferId kSinkBuffer{0};
inline constexpr BufferId kZeroBuffer{1};
inline constexpr std::uint64_t kStandingBufferBytes = 65'536;
// Slots for segments of rounds that this peer has not launched yet. Only slots in use need memory.
inline constexpr BufferId kEarlyBuffer{2};
inline constexpr std::uint64_t kEarlySlotBytes = 16'384;
inline constexpr std::uint32_t kEarlySlots = 2048;
inline constexpr std::uint32_t kEarlySlotsEach = 128;  // the most slots that one neighbour can occupy
// Slots of the same size for small sends of members that no receive has taken.
inline constexpr BufferId kEarlySendBuffer{3};
inline constexpr std::uint32_t kEarlySendSlots = 1024;
inline constexpr BufferId kFirstFreeBuffer{16};

}  // namespace lockstep
