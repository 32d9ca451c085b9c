#include "transport/utc_time.h"

#include <gtest/gtest.h>

namespace lockstep::transport {
namespace {

TEST(UtcTime, ATimeSurvivesItsText) {
  EXPECT_EQ(utc_text(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(utc_text(1'798'675'199), "2026-12-30T23:59:59Z");
  EXPECT_EQ(utc_text(kLatestUtc), "9999-12-31T23:59:59Z");
  for (const std::int64_t time :
       {std::int64_t{0}, std::int64_t{951'782'400}, std::int64_t{1'798'761'600}, kLatestUtc}) {
    EXPECT_EQ(utc_of(utc_text(time)), time);
  }
  EXPECT_EQ(utc_of("2024-02-29T12:00:00Z"), 1'709'208'000);
}

TEST(UtcTime, OtherTextsAreRefused) {
  for (const char* text :
       {"", "2026-12-31", "2026-12-31T00:00:00", "2026-12-31T00:00:00z", "2026-12-31 00:00:00Z", "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z", "2026-1-1T00:00:00Z", "2026-12-31T00:00:00Z ", " 2026-12-31T00:00:00Z",
        "2026-12-31T24:00:00Z", "1969-12-31T23:59:59Z", "2026-12-31T00:00:00+01:00", "12026-12-31T00:00:00Z"}) {
    EXPECT_EQ(utc_of(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace lockstep::transport
