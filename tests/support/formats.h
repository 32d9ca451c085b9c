// Values that reveal errors in wire formats: runs, each hostile in its own way.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/base/rng.h"
#include "core/kernels/formats/format.h"

namespace lockstep::test {

inline constexpr std::array kAllFormats = {WireFormat::kNative, WireFormat::kBF16,       WireFormat::kF16,
                                           WireFormat::kInt8,   WireFormat::kInt8MinMax, WireFormat::kInt8Codebook,
                                           WireFormat::kInt4,   WireFormat::kE3M0};
static_assert(kAllFormats.size() == kWireFormatCount);

// A number in [-2, 2), more often near 0.
inline float bell(std::uint64_t random) {
  float sum = -2.0F;
  for (unsigned n = 0; n < 4; ++n) sum += static_cast<float>(random >> 16U * n & 0xffffU) * 0x1p-16F;
  return sum;
}

// A finite number of a style; `random` belongs to the number, `of_run` to its run.
inline float hostile_float(std::uint64_t style, std::uint64_t random, std::uint64_t of_run) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const auto finite = [](std::uint64_t bits) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    return std::isfinite(value) ? value : 0.0F;
  };
  const auto small = static_cast<int>(random >> 60U);  // 0..15
  switch (style) {
    case 0: return finite(random);  // of any size
    case 1: return bell(random);
    case 2: return finite(of_run);  // all equal
    case 3: return random % 2 == 0 ? 0.0F : -0.0F;
    case 4: return finite(random & 0x807f'ffffU);                   // denormal
    case 5: return std::ldexp(bell(random), small % 4 - 121);       // where blocks become zero
    case 6: return std::ldexp(bell(random), small % 4 - 100);       // where blocks of the codebook become zero
    case 7: return finite((random & 0x80ff'ffffU) | 0x7e00'0000U);  // 2^125 and more
    case 8: return std::array{kMost, -kMost, 0.0F, 1.0F}[random % 4];
    case 9: return std::ldexp(std::array{0.75F, 1.5F, 0x1.7ffffep-1F, -0x1.7ffffep0F, 1.0F}[random % 5], small - 10);
    case 10: return 1e6F + bell(random);  // far from zero and close together
    case 11: return static_cast<float>(static_cast<int>(random % 255) - 127) - (random % 3 == 0 ? 0.5F : 0.0F);  // ties
    default: return random % 97 == 0 ? 1e4F * bell(random) : 1e-3F * bell(random);  // outliers
  }
}

// Finite numbers; a run has the length of a small block.
inline std::vector<float> hostile_floats(std::uint64_t seed, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t of_run = draw(seed, 1, i / 64);
    values[i] = hostile_float(below(mix64(of_run), 13), draw(seed, 2, i), of_run);
  }
  return values;
}

// All of one style.
inline std::vector<float> floats_of_style(std::uint64_t style, std::uint64_t seed, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = hostile_float(style, draw(seed, 2, i), draw(seed, 1));
  return values;
}
inline constexpr std::uint64_t kStyles = 13;

inline std::span<const std::byte> bytes_of(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace lockstep::test
