#include "bindings/c/time_out.h"

#include "transport/driver_mutant.h"

namespace lockstep::c {
namespace {

using transport::DriverMutant;

bool endless(std::int64_t ms) { return ms == LOCKSTEP_FOREVER || ms > kLongestTimeOutMs; }

}  // namespace

Result<std::optional<Duration>> wait_time_out(std::int64_t ms, std::string_view name) {
  if (endless(ms)) return std::optional<Duration>();
  if (ms < 0) return invalid("{} is {}; allowed: 0 or more, or LOCKSTEP_FOREVER (-1)", name, ms);
  return std::optional<Duration>(milliseconds(ms));
}

Result<Duration> call_time_out(std::int64_t ms, std::string_view name) {
  if (endless(ms)) return Duration{0};
  if (ms == 0 && planted(DriverMutant::kZeroIsForever)) return Duration{0};
  if (ms <= 0) return invalid("{} is {}; allowed: 1 or more, or LOCKSTEP_FOREVER (-1)", name, ms);
  return milliseconds(ms);
}

Result<Duration> field_time_out(std::int64_t ms, std::string_view name) {
  if (endless(ms)) return Duration{0};
  if (ms == 0) return milliseconds(LOCKSTEP_DEFAULT_TIMEOUT_MS);
  if (ms < 0) {
    return invalid("{} is {}; allowed: 1 or more; 0 for 30 minutes, LOCKSTEP_FOREVER (-1) for none", name, ms);
  }
  return milliseconds(ms);
}

}  // namespace lockstep::c
