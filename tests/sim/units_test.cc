// Quantities as people write them.
#include "sim/units.h"

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

TEST(Units, DurationsHaveAUnit) {
  EXPECT_EQ(duration_of("200ms"), milliseconds(200));
  EXPECT_EQ(duration_of("1.5s"), milliseconds(1500));
  EXPECT_EQ(duration_of("2min"), lockstep::seconds(120));
  EXPECT_EQ(duration_of("7 us"), microseconds(7));
  EXPECT_EQ(duration_of("1h"), lockstep::seconds(3600));
  for (const char* wrong : {"", "s", "5", "5 parsecs", "-1s", "1e9h", "1..5s", "99999999999999999999s", "nans"}) {
    EXPECT_FALSE(duration_of(wrong)) << wrong;
  }
}

TEST(Units, BytesArePowersOfTwo) {
  EXPECT_EQ(bytes_of("64KiB"), 65536U);
  EXPECT_EQ(bytes_of("1.5 MiB"), 1572864U);
  EXPECT_EQ(bytes_of("100"), 100U);
  EXPECT_EQ(bytes_of("3B"), 3U);
  for (const char* wrong : {"", "KiB", "1KB", "-1B", "99999999999999999999GiB"}) EXPECT_FALSE(bytes_of(wrong)) << wrong;
}

TEST(Units, RatesArePowersOfTen) {
  EXPECT_EQ(rate_of("100Mbit/s"), 12'500'000U);
  EXPECT_EQ(rate_of("1 GB/s"), 1'000'000'000U);
  for (const char* wrong : {"", "100", "100Mbit", "0Mbit/s", "fast"}) EXPECT_FALSE(rate_of(wrong)) << wrong;
}

TEST(Units, ADurationIsReadBackAsItWasWritten) {
  EXPECT_EQ(words_of(seconds(90)), "90s");
  EXPECT_EQ(words_of(milliseconds(1500)), "1500ms");
  EXPECT_EQ(words_of(seconds(5), " "), "5 s");
  EXPECT_EQ(words_of(nanoseconds(7)), "7ns");
  EXPECT_EQ(words_of(Duration{}), "0s");
  for (const Duration each : {seconds(90), milliseconds(1500), nanoseconds(7), Duration{}}) {
    EXPECT_EQ(duration_of(words_of(each)), each);
  }
}

}  // namespace
}  // namespace lockstep::sim
