// The largest elements of a chunk by absolute value: the part of an array that SparseLoCo and DeMo send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::training {

// A place in a chunk has 12 bits.
inline constexpr std::size_t kLongestChunk = 4096;

// Finds the `most` elements with the largest absolute values; of equal ones, the first. Zeros are never kept. A NaN is
// larger than infinity, and a NaN with a larger payload is larger. Writes places, ascending, and values; returns their
// number. places, values: room for min(most, chunk.size()). most >= 1; chunk.size() <= kLongestChunk.
// Takes about as long for any values; reference::keep_largest defines the result.
std::size_t keep_largest(std::span<const float> chunk, std::size_t most, std::uint16_t* places, float* values);

}  // namespace lockstep::training
