// When a token ends, as people say it: "7d" from now, or a date.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep::cli {

// Seconds since 1970 for "30min", "12h", "7d", "4w" from `now`, or for "2026-12-31T00:00:00Z". Nothing: it is neither,
// or no time after `now`.
std::optional<std::int64_t> expiry_of(std::string_view text, std::int64_t now);

}  // namespace lockstep::cli
