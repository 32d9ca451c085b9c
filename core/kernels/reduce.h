// Folds one contribution into another, element by element; reference.h defines the results bit by bit. Buffers may have
// any alignment. Floating-point types need the default environment; see float_environment.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/data_type.h"

namespace lockstep {

// into = incoming op own, in that order; for an average, their sum. All spans have the same length, in whole elements.
// `into` is the same memory as `incoming` or `own`, or overlaps neither.
void fold(DataType type, ReduceOp op, std::span<std::byte> into, std::span<const std::byte> incoming,
          std::span<const std::byte> own);

// Divides sums to get averages. contributors >= 1.
void divide(DataType type, std::span<std::byte> values, std::uint32_t contributors);

}  // namespace lockstep
