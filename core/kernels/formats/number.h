// native, bf16 and f16: every element is encoded on its own.
#pragma once

#include <cmath>

#include "core/kernels/formats/block.h"
#include "core/kernels/lanes.h"

namespace lockstep::formats {

struct Native {
  static constexpr WireFormat kFormat = WireFormat::kNative;

  LOCKSTEP_INLINE static void encode(std::byte* encoded, Block block) {
    LOCKSTEP_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < block.count; ++i) store(encoded, i, block[i]);
  }

  template <typename Sink>
  LOCKSTEP_INLINE static bool decode(const std::byte* encoded, std::size_t count, Sink sink) {
    if (largest_magnitude_bits(encoded, count) >= kInfinityBits) return false;
    LOCKSTEP_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) sink(i, load<float>(encoded, i));
    return true;
  }
};

template <SmallFloat T>
struct Small {
  static constexpr bool kIsF16 = std::same_as<T, F16>;
  static constexpr WireFormat kFormat = kIsF16 ? WireFormat::kF16 : WireFormat::kBF16;

  LOCKSTEP_INLINE static void encode(std::byte* encoded, Block block) {
    constexpr std::int32_t kMost = std::bit_cast<std::int32_t>(widen(T{kIsF16 ? 0x7bffU : 0x7f7fU}));
    LOCKSTEP_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < block.count; ++i) {
      const float capped = std::bit_cast<float>(std::min(magnitude_bits(block[i]), kMost));
      store(encoded, i, lanes::narrow_lane<T>(std::copysign(capped, block[i])));
    }
  }

  template <typename Sink>
  LOCKSTEP_INLINE static bool decode(const std::byte* encoded, std::size_t count, Sink sink) {
    constexpr std::int16_t kInfinity = kIsF16 ? 0x7c00 : 0x7f80;
    std::int16_t largest = 0;
    for (std::size_t i = 0; i < count; ++i) {
      largest = std::max(largest, static_cast<std::int16_t>(load<std::int16_t>(encoded, i) & 0x7fff));
    }
    if (largest >= kInfinity) return false;
    LOCKSTEP_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) sink(i, lanes::widen_lane(load<T>(encoded, i)));
    return true;
  }
};

}  // namespace lockstep::formats
