#include "transport/utc_time.h"

#include <array>
#include <chrono>
#include <ctime>

#include "core/base/assert.h"

namespace lockstep::transport {
namespace {

constexpr const char* kIso8601 = "%Y-%m-%dT%H:%M:%SZ";

}  // namespace

std::string utc_text(std::int64_t seconds) {
  LOCKSTEP_ASSERT(seconds >= 0 && seconds <= kLatestUtc);
  const std::time_t time = seconds;
  std::tm utc{};
  ::gmtime_r(&time, &utc);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), kIso8601, &utc)};
}

std::optional<std::int64_t> utc_of(std::string_view text) {
  std::tm utc{};
  const std::string ends(text);  // with a zero behind it
  if (::strptime(ends.c_str(), kIso8601, &utc) == nullptr) return std::nullopt;
  const std::int64_t seconds = ::timegm(&utc);
  // strptime() allows other texts, too, such as the 31st of June
  if (seconds < 0 || seconds > kLatestUtc || utc_text(seconds) != text) return std::nullopt;
  return seconds;
}

std::int64_t utc_now() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace lockstep::transport
