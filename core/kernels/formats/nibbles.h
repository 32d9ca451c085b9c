// Codes of 4 bits: byte i of a block holds element i in its lower half and element i + (size + 1)/2 in its upper half,
// so that each half of a block is contiguous in memory, as vector code needs it. In a block of odd size the last upper
// half is 0.
#pragma once

#include "core/kernels/formats/block.h"

namespace lockstep::formats {

// code_of(i): 0..15.
template <typename CodeOf>
LOCKSTEP_INLINE void store_nibbles(std::byte* encoded, std::size_t count, CodeOf code_of) {
  const std::size_t half = (count + 1) / 2;
  LOCKSTEP_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count / 2; ++i) {
    store(encoded, i, static_cast<std::uint8_t>(code_of(i) | code_of(half + i) << 4U));
  }
  if (count % 2 == 1) store(encoded, half - 1, static_cast<std::uint8_t>(code_of(half - 1)));
}

// Calls sink(i, value_of(code)) for all elements.
template <typename ValueOf, typename Sink>
LOCKSTEP_INLINE void load_nibbles(const std::byte* encoded, std::size_t count, ValueOf value_of, Sink sink) {
  const std::size_t half = (count + 1) / 2;
  LOCKSTEP_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < half; ++i) sink(i, value_of(load<std::uint8_t>(encoded, i) & 15U));
  LOCKSTEP_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count / 2; ++i) sink(half + i, value_of(load<std::uint8_t>(encoded, i) >> 4U));
}

// Verifies that no code is 8 (-8 or -0), which both formats leave out, and that the half byte after the last code is 0.
LOCKSTEP_INLINE bool nibbles_are_codes(const std::byte* encoded, std::size_t count) {
  const std::size_t half = (count + 1) / 2;
  std::uint8_t eights = 0;
  for (std::size_t i = 0; i < half; ++i) {
    const auto byte = load<std::uint8_t>(encoded, i);
    const bool lower = (byte & 0x0fU) == 0x08U;
    const bool upper = (byte & 0xf0U) == 0x80U;
    eights = static_cast<std::uint8_t>(eights | static_cast<std::uint8_t>(lower) | static_cast<std::uint8_t>(upper));
  }
  return eights == 0 && (count % 2 == 0 || load<std::uint8_t>(encoded, half - 1) < 16);
}

}  // namespace lockstep::formats
