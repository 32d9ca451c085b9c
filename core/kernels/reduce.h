// Folds one contribution into another, element by element; reference.h says what that means, bit for bit. Buffers may
// have any alignment. Floats assume the default floating-point environment; see float_environment.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/data_type.h"

namespace lockstep {

// into = incoming op own, in that order; for an average, their sum. All spans are equally long, in whole elements.
// `into` is exactly the memory of `incoming` or of `own`, or overlaps neither.
void fold(DataType type, ReduceOp op, std::span<std::byte> into, std::span<const std::byte> incoming,
          std::span<const std::byte> own);

// Makes averages of sums. contributors >= 1.
void divide(DataType type, std::span<std::byte> values, std::uint32_t contributors);

}  // namespace lockstep
