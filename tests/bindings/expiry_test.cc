#include "bindings/cli/expiry.h"

#include <gtest/gtest.h>

#include "transport/utc_time.h"

namespace lockstep::cli {
namespace {

constexpr std::int64_t kNow = 1'798'000'000;

TEST(Expiry, IsADurationFromNowOrATime) {
  EXPECT_EQ(expiry_of("7d", kNow), kNow + std::int64_t{7} * 86'400);
  EXPECT_EQ(expiry_of("4w", kNow), kNow + std::int64_t{28} * 86'400);
  EXPECT_EQ(expiry_of("12h", kNow), kNow + std::int64_t{12} * 3600);
  EXPECT_EQ(expiry_of("30min", kNow), kNow + 1800);
  EXPECT_EQ(expiry_of("1.5h", kNow), kNow + 5400);
  EXPECT_EQ(expiry_of("90s", kNow), kNow + 90);
  EXPECT_EQ(expiry_of("2100-01-01T00:00:00Z", kNow), transport::utc_of("2100-01-01T00:00:00Z"));
}

TEST(Expiry, IsInTheFuture) {
  for (const char* text : {"0d", "0s", "500ms", "-1d", "2020-01-01T00:00:00Z"}) {
    EXPECT_EQ(expiry_of(text, kNow), std::nullopt) << text;
  }
  EXPECT_EQ(expiry_of(transport::utc_text(kNow), kNow), std::nullopt);
  EXPECT_EQ(expiry_of(transport::utc_text(kNow + 1), kNow), kNow + 1);
}

TEST(Expiry, OtherTextsAreRefused) {
  for (const char* text : {"", "d", "7", "7 days", "7D", "7dd", "1.5d", "never", "2100-01-01", "9999999999999999999d",
                           "3000000d", "400000000d"}) {
    EXPECT_EQ(expiry_of(text, kNow), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace lockstep::cli
