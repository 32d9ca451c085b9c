// Converts milliseconds of the C API to durations.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "bindings/c/error.h"
#include "core/base/time.h"
#include "lockstep.h"

namespace lockstep::c {

// A longer timeout counts as none: the sum of a moment and a duration must not overflow.
inline constexpr std::int64_t kLongestTimeOutMs = std::int64_t{100} * 365 * 24 * 3600 * 1000;  // a century

// The timeout of a wait. 0 checks once; nothing waits forever.
Result<std::optional<Duration>> wait_time_out(std::int64_t ms, std::string_view name);
// The timeout of a call, given as a parameter: must be above 0, because 0 means "none" in core.
Result<Duration> call_time_out(std::int64_t ms, std::string_view name);
// The timeout of a call, given as a field: 0 is the default, LOCKSTEP_DEFAULT_TIMEOUT_MS.
Result<Duration> field_time_out(std::int64_t ms, std::string_view name);

}  // namespace lockstep::c
