// int8 and int4: a code is a multiple of the block's scale. The scale is the largest magnitude divided by the largest
// code.
#pragma once

#include <limits>

#include "core/kernels/formats/block.h"
#include "core/kernels/formats/nibbles.h"

namespace lockstep::formats {

template <std::int32_t kMostCode>
struct Scale {
  // The largest scale whose product with any code is finite.
  static constexpr float kMost =
      kMostCode == 127 ? 0x1.020406p121F : std::numeric_limits<float>::max() / static_cast<float>(kMostCode);
  static_assert(static_cast<float>(kMostCode) * kMost <= std::numeric_limits<float>::max());

  float scale = 0.0F;
  float steps_per_unit = 0.0F;

  static Scale of(Block block) {
    constexpr auto kCode = static_cast<float>(kMostCode);
    const auto largest = std::bit_cast<float>(block.largest);
    if (largest < 0x1p-119F) return {};
    return {std::min(largest / kCode, kMost), kCode / largest};
  }

  static bool is_scale(float scale) { return scale >= std::numeric_limits<float>::min() && scale <= kMost; }

  [[nodiscard]] std::int32_t code_of(float value) const { return nearest_integer(value * steps_per_unit); }
};

struct Int8 {
  static constexpr WireFormat kFormat = WireFormat::kInt8;

  LOCKSTEP_INLINE static void encode(std::byte* encoded, Block block) {
    const auto scale = Scale<127>::of(block);
    LOCKSTEP_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < block.count; ++i) store(encoded, i, static_cast<std::int8_t>(scale.code_of(block[i])));
    store(encoded + block.count, 0, scale.scale);
  }

  template <typename Sink>
  LOCKSTEP_INLINE static bool decode(const std::byte* encoded, std::size_t count, Sink sink) {
    const auto scale = load<float>(encoded + count, 0);
    std::int8_t least = 0;
    for (std::size_t i = 0; i < count; ++i) least = std::min(least, load<std::int8_t>(encoded, i));
    if (least == -128) return false;
    if (!Scale<127>::is_scale(scale) && !all_zero(encoded, count + sizeof(scale))) return false;
    LOCKSTEP_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) sink(i, static_cast<float>(load<std::int8_t>(encoded, i)) * scale);
    return true;
  }
};

struct Int4 {
  static constexpr WireFormat kFormat = WireFormat::kInt4;

  LOCKSTEP_INLINE static void encode(std::byte* encoded, Block block) {
    const auto scale = Scale<7>::of(block);
    store_nibbles(encoded, block.count,
                  [=](std::size_t i) { return static_cast<std::uint32_t>(scale.code_of(block[i])) & 15U; });
    store(encoded + (block.count + 1) / 2, 0, scale.scale);
  }

  template <typename Sink>
  LOCKSTEP_INLINE static bool decode(const std::byte* encoded, std::size_t count, Sink sink) {
    const std::size_t code_bytes = (count + 1) / 2;
    const auto scale = load<float>(encoded + code_bytes, 0);
    if (!nibbles_are_codes(encoded, count)) return false;
    if (!Scale<7>::is_scale(scale) && !all_zero(encoded, code_bytes + sizeof(scale))) return false;
    load_nibbles(
        encoded, count,
        [=](std::uint32_t code) { return static_cast<float>(static_cast<std::int32_t>(code ^ 8U) - 8) * scale; }, sink);
    return true;
  }
};

}  // namespace lockstep::formats
