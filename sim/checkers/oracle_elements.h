// The second implementation of folds, element by element, from the words of bindings/c/include/lockstep.h ("How
// elements are folded"). It shares no function with core/kernels, and computes in another way: integers as numbers
// modulo a power of two, 16-bit floats as multiples of their unit in the last place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/data_type.h"

namespace lockstep::sim::oracle {

using Bytes = std::vector<std::byte>;

// incoming op own, element after element; for an average, the sum so far.
Bytes fold(DataType type, ReduceOp op, std::span<const std::byte> incoming, std::span<const std::byte> own);

// The average that a sum of so many contributions makes.
void divide(DataType type, std::span<std::byte> values, std::uint32_t contributors);

// The number that these bits of a 16-bit float stand for; and the bits of the nearest such number, of the even one of
// two.
float number_of(DataType type, std::uint16_t bits);
std::uint16_t bits_of_nearest(DataType type, float value);

}  // namespace lockstep::sim::oracle
