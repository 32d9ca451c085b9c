// e3m0: a sign and a power of two relative to the power of two of the block's largest magnitude. Uses only integer
// arithmetic on the bits of an f32.
#pragma once

#include "core/kernels/formats/block.h"
#include "core/kernels/formats/nibbles.h"

namespace lockstep::formats {

struct E3M0 {
  static constexpr WireFormat kFormat = WireFormat::kE3M0;

  LOCKSTEP_INLINE static void encode(std::byte* encoded, Block block) {
    const bool zero = block.largest < std::bit_cast<std::int32_t>(0x1p-119F);
    // the largest power of two of an f32 is 2^127
    const std::int32_t exponent = zero ? 0 : std::min(rounded_exponent(block.largest), 254);
    const std::int32_t below_least = zero ? 255 : exponent - 7;  // the exponent whose size is 0
    store_nibbles(encoded, block.count, [=](std::size_t i) {
      const std::int32_t above = rounded_exponent(magnitude_bits(block[i])) - below_least;
      const std::int32_t size = std::min(std::max(above, 0), 7);
      const std::uint32_t sign = std::bit_cast<std::uint32_t>(block[i]) >> 28U & 8U;
      return static_cast<std::uint32_t>(size) |
             (sign & static_cast<std::uint32_t>(size + 7));  // no sign if the size is 0
    });
    store(encoded + (block.count + 1) / 2, 0, static_cast<std::uint8_t>(exponent));
  }

  template <typename Sink>
  LOCKSTEP_INLINE static bool decode(const std::byte* encoded, std::size_t count, Sink sink) {
    const std::size_t code_bytes = (count + 1) / 2;
    const auto exponent = load<std::uint8_t>(encoded + code_bytes, 0);
    if (!nibbles_are_codes(encoded, count)) return false;
    // the exponent of 2^-119 is 8
    if ((exponent < 8 || exponent > 254) && !all_zero(encoded, code_bytes + 1)) return false;
    const std::uint32_t below_least = exponent - 7U;
    load_nibbles(
        encoded, count,
        [=](std::uint32_t code) {
          const std::uint32_t size = code & 7U;
          const std::uint32_t magnitude = size == 0 ? 0U : (below_least + size) << 23U;
          return std::bit_cast<float>((code & 8U) << 28U | magnitude);
        },
        sink);
    return true;
  }

 private:
  // The exponent of the power of two that a magnitude is rounded to: the magnitude is in [3/4, 3/2) of it.
  static std::int32_t rounded_exponent(std::int32_t magnitude) { return (magnitude + 0x40'0000) >> 23; }
};

}  // namespace lockstep::formats
