// Shared parts of the fast codecs. A codec consists of plain loops without branches over the elements of a block, which
// compilers turn into vector code; reference.h defines the results. Each format is a struct:
//
//   kFormat                             its name
//   encode(encoded, block)              one block of finite values
//   decode(encoded, count, sink)        one block, each value to sink(i, value); false if it is malformed
//
// The functions of codec.cc inline all of it twice: for whole blocks, with loops of constant length, and for the
// remainder.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/kernels/formats/format.h"
#include "core/kernels/lanes.h"
#include "core/kernels/loops.h"
#include "core/kernels/reference.h"

// Forces inlining, so that the code is compiled for the caller's instruction set. (GCC's `flatten` would work; Clang's
// inlines only one level of calls.)
#define LOCKSTEP_INLINE [[gnu::always_inline]] inline

namespace lockstep::formats {

using reference::load;
using reference::store;

inline constexpr std::int32_t kInfinityBits = 0x7f80'0000;

// The bits without the sign: an integer in the order of magnitudes. Infinity is greater than all numbers, and NaNs are
// greater than infinity.
inline std::int32_t magnitude_bits(float value) { return std::bit_cast<std::int32_t>(value) & 0x7fff'ffff; }

// An integer in the order of the numbers, with -0.0 before +0.0. Applying the function twice returns the bits.
inline std::int32_t order_of_bits(std::int32_t bits) { return bits ^ ((bits >> 31) & 0x7fff'ffff); }

inline std::int32_t largest_magnitude_bits(const std::byte* values, std::size_t count) {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, magnitude_bits(load<float>(values, i)));
  return largest;
}

// The values of a block, and properties of the block that are computed before the encoding.
struct Block {
  const std::byte* values;
  std::size_t count;
  std::int32_t largest = largest_magnitude_bits(values, count);

  [[nodiscard]] bool finite() const { return largest < kInfinityBits; }
  [[nodiscard]] float operator[](std::size_t i) const { return load<float>(values, i); }
};

// Rounds to the nearest integer, ties to even, for |value| < 2^22. The sum with 3 * 2^22 has no bits for a fraction.
inline std::int32_t nearest_integer(float value) {
  constexpr float kNoFraction = 0x1.8p23F;
  return std::bit_cast<std::int32_t>(value + kNoFraction) - std::bit_cast<std::int32_t>(kNoFraction);
}

inline bool all_zero(const std::byte* bytes, std::size_t count) {
  std::uint8_t any = 0;
  for (std::size_t i = 0; i < count; ++i) any = static_cast<std::uint8_t>(any | load<std::uint8_t>(bytes, i));
  return any == 0;
}

// Sinks: destinations of decoded values.

struct Store {
  std::byte* values;
  void operator()(std::size_t i, float value) const { store(values, i, value); }
  [[nodiscard]] Store from(std::size_t element) const { return {values + element * sizeof(float)}; }
};

struct Nowhere {
  void operator()(std::size_t, float) const {}
  [[nodiscard]] Nowhere from(std::size_t) const { return {}; }
};

struct AddWeighted {
  std::byte* sums;
  float weight;
  void operator()(std::size_t i, float value) const {
    store(sums, i, lanes::quiet(load<float>(sums, i) + weight * value));
  }
  [[nodiscard]] AddWeighted from(std::size_t element) const { return {sums + element * sizeof(float), weight}; }
};

// Calls do_block(first element, first byte, count) for each block until a call returns false.
template <typename Format, typename DoBlock>
bool each_block(std::size_t elements, DoBlock do_block) {
  constexpr BlockLayout kLayout = layout_of(Format::kFormat);
  // single numbers are processed in groups
  constexpr std::size_t kElements = kLayout.elements > 1 ? kLayout.elements : 256;
  constexpr std::size_t kBytes = encoded_size(Format::kFormat, kElements);
  std::size_t block = 0;
  for (; block < elements / kElements; ++block) {
    if (!do_block(block * kElements, block * kBytes, kElements)) return false;
  }
  const std::size_t rest = elements % kElements;
  return rest == 0 || do_block(block * kElements, block * kBytes, rest);
}

}  // namespace lockstep::formats
