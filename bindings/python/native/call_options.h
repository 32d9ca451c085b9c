// The options of an all-reduce as Python gives them: one tuple, AllReduceOptions of lockstep/_call_options.py, since
// reading attributes would cost a small call too much.
#pragma once

#include <array>
#include <cstddef>

namespace lockstep::python {

enum AllReduceField : std::size_t { kOp, kTag, kTimeout, kMinimumWorld, kRetry, kUp, kDown, kWeight, kAlgorithm };

// The names of the fields, in their order.
inline constexpr std::array kAllReduceFields = {"op", "tag",  "timeout", "minimum_world", "retry",
                                                "up", "down", "weight",  "algorithm"};
static_assert(kAllReduceFields.size() == kAlgorithm + 1);

}  // namespace lockstep::python
