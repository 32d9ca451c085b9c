// Values for the tests of kernels.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/support/formats.h"

namespace lockstep::test {

using Floats = std::vector<float>;

// Bits, so that a comparison tells NaNs and zeros apart.
inline std::vector<std::uint32_t> float_bits(std::span<const float> values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

// Hostile values, but none that is not finite, or that makes a sum of two so.
inline Floats finite_floats(std::uint64_t seed, std::size_t count) {
  Floats values = hostile_floats(seed, count);
  for (float& value : values)
    if (!(std::fabs(value) < 1e30F)) value = -3.25F;
  return values;
}

}  // namespace lockstep::test
