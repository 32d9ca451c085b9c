// Times as people write them in files and on command lines: "2026-12-31T00:00:00Z" (ISO 8601, UTC), in seconds since
// 1970.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::transport {

// Until the end of the year 9999.
inline constexpr std::int64_t kLatestUtc = 253'402'300'799;

// Precondition: from 0 to kLatestUtc.
std::string utc_text(std::int64_t seconds);
// Exactly as utc_text() writes it.
std::optional<std::int64_t> utc_of(std::string_view text);
std::int64_t utc_now();

}  // namespace lockstep::transport
