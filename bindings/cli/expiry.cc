#include "bindings/cli/expiry.h"

#include <charconv>

#include "sim/words/units.h"
#include "transport/utc_time.h"

namespace lockstep::cli {
namespace {

constexpr std::int64_t kDay = 86'400;  // seconds

// Whole days or weeks, which the units of the simulator do not have, or a duration in its units.
std::optional<std::int64_t> seconds_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const std::int64_t days = unit == "d" ? 1 : unit == "w" ? 7 : 0;
  if (days != 0) {
    if (error != std::errc() || number < 0 || number > transport::kLatestUtc / (7 * kDay)) return std::nullopt;
    return number * days * kDay;
  }
  const auto duration = sim::duration_of(text);
  if (!duration) return std::nullopt;
  return duration->ns / 1'000'000'000;
}

}  // namespace

std::optional<std::int64_t> expiry_of(std::string_view text, std::int64_t now) {
  auto time = transport::utc_of(text);
  if (!time) {
    const auto seconds = seconds_of(text);
    if (!seconds || *seconds > transport::kLatestUtc - now) return std::nullopt;
    time = now + *seconds;
  }
  return *time > now ? time : std::nullopt;
}

}  // namespace lockstep::cli
