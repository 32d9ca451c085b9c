// int8-min-max: codes in steps from the block's lowest value to its highest.
#pragma once

#include <limits>

#include "core/kernels/formats/block.h"

namespace lockstep::formats {

struct Int8MinMax {
  static constexpr WireFormat kFormat = WireFormat::kInt8MinMax;
  static constexpr float kMost = 0x1p126F;  // the range of values up to this magnitude is finite

  LOCKSTEP_INLINE static void encode(std::byte* encoded, Block block) {
    std::int32_t least = std::numeric_limits<std::int32_t>::max();
    std::int32_t most = std::numeric_limits<std::int32_t>::min();
    for (std::size_t i = 0; i < block.count; ++i) {
      const std::int32_t order = order_of_bits(std::bit_cast<std::int32_t>(block[i]));
      least = std::min(least, order);
      most = std::max(most, order);
    }
    const float lowest = std::clamp(std::bit_cast<float>(order_of_bits(least)), -kMost, kMost);
    const float highest = std::clamp(std::bit_cast<float>(order_of_bits(most)), -kMost, kMost);
    const float half_range = highest * 0.5F - lowest * 0.5F;
    const bool flat = half_range < 0x1p-119F;
    const float step = flat ? 0.0F : half_range / 127.5F;
    const float steps_per_unit = flat ? 0.0F : 127.5F / half_range;
    LOCKSTEP_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < block.count; ++i) {
      const float floored = block[i] < lowest ? lowest : block[i];
      const float within = floored > highest ? highest : floored;
      store(encoded, i, static_cast<std::uint8_t>(nearest_integer((within - lowest) * steps_per_unit)));
    }
    store(encoded + block.count, 0, lowest);
    store(encoded + block.count, 1, step);
  }

  template <typename Sink>
  LOCKSTEP_INLINE static bool decode(const std::byte* encoded, std::size_t count, Sink sink) {
    const auto lowest = load<float>(encoded + count, 0);
    const auto step = load<float>(encoded + count, 1);
    if (!(lowest >= -kMost && lowest <= kMost)) return false;
    const bool is_step = step >= std::numeric_limits<float>::min() && step <= kMost / 127.5F;
    const bool is_flat = std::bit_cast<std::uint32_t>(step) == 0 && all_zero(encoded, count);
    if (!is_step && !is_flat) return false;
    LOCKSTEP_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) {
      sink(i, lowest + static_cast<float>(load<std::uint8_t>(encoded, i)) * step);
    }
    return true;
  }
};

}  // namespace lockstep::formats
