// Memory by name. Core moves these around; only drivers turn them into addresses.
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

// Two buffers that every driver has, at least kStandingBufferBytes long. The sink takes bytes that nobody wants; the
// zeros are what a frame is filled up with when its payload was taken back.
inline constexpr BufferId kSinkBuffer{0};
inline constexpr BufferId kZeroBuffer{1};
inline constexpr std::uint64_t kStandingBufferBytes = 65'536;
// A third one: slots for segments of rounds that are not launched here yet. Only those that are used need memory behind
// them.
inline constexpr BufferId kEarlyBuffer{2};
inline constexpr std::uint64_t kEarlySlotBytes = 16'384;
inline constexpr std::uint32_t kEarlySlots = 256;
inline constexpr std::uint32_t kEarlySlotsEach = 128;  // one neighbour has no more of them
inline constexpr BufferId kFirstFreeBuffer{16};

}  // namespace lockstep
