// Quantities as people write them.
#include "sim/words/units.h"

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

TEST(Units, ForPeopleThereAreThreeDigitsAndNoExponent) {
  EXPECT_EQ(short_text(milliseconds(10'849)), "10.8 s");
  EXPECT_EQ(short_text(milliseconds(1200)), "1.2 s");
  EXPECT_EQ(short_text(seconds(1700)), "1700 s");
  EXPECT_EQ(short_text(microseconds(90'540)), "90.5 ms");
  EXPECT_EQ(short_text(microseconds(999'400)), "999 ms");
  EXPECT_EQ(short_text(microseconds(999'600)), "1 s");
  EXPECT_EQ(short_text(microseconds(50)), "50 us");
  EXPECT_EQ(short_text(milliseconds(-1700)), "-1.7 s");
  EXPECT_EQ(short_text(Duration{}), "0 s");
  EXPECT_EQ(short_size(16U << 20U), "16 MiB");
  EXPECT_EQ(short_size(4'000'012), "3.81 MiB");
  EXPECT_EQ(short_size((1U << 20U) - 1), "1 MiB");
  EXPECT_EQ(short_size(1000), "1000 bytes");
  EXPECT_EQ(short_size(1), "1 byte");
  EXPECT_EQ(short_rate(2.34e6), "2.34 MB/s");
  EXPECT_EQ(short_rate(999.6e6), "1 GB/s");
  EXPECT_EQ(short_rate(12), "0.01 kB/s");
}

}  // namespace
}  // namespace lockstep::sim
