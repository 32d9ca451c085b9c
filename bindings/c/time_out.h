// Milliseconds of the C API as durations.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "bindings/c/error.h"
#include "core/base/time.h"
#include "lockstep.h"

namespace lockstep::c {

// Longer time-outs are none: sums of a moment and a duration must not overflow.
inline constexpr std::int64_t kLongestTimeOutMs = std::int64_t{100} * 365 * 24 * 3600 * 1000;  // a century

// Of a wait: 0 looks once; nothing: as long as it takes.
Result<std::optional<Duration>> wait_time_out(std::int64_t ms, std::string_view name);
// Of a call that is a parameter: above 0. Core's 0 is "none".
Result<Duration> call_time_out(std::int64_t ms, std::string_view name);
// Of a call that is a field: 0 is its default, none.
Result<Duration> field_time_out(std::int64_t ms, std::string_view name);

}  // namespace lockstep::c
