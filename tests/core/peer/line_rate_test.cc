#include "core/peer/line_rate.h"

#include <gtest/gtest.h>

namespace lockstep::peer {
namespace {

constexpr std::uint64_t kMib = 1U << 20U;

class Line : public ::testing::Test {
 protected:
  // After `time`, so many bytes more are acknowledged, and `outstanding` are not, of which one was written last.
  void pass(std::uint64_t bytes, Duration time, std::uint64_t outstanding = kMib) {
    now_ = now_ + time;
    acknowledged_ += bytes;
    rate_.written({acknowledged_, outstanding}, 1, now_);
  }
  // A window that begins anew and has this rate.
  void window(std::uint64_t mib_per_s) {
    pass(0, seconds(3));
    for (int i = 0; i < 4; ++i) pass(mib_per_s * kMib / 10, milliseconds(100));
  }

  Instant now_{1'000'000'000};
  std::uint64_t acknowledged_ = 0;
  LineRate rate_{milliseconds(300), 2 * kMib};
};

TEST_F(Line, IsNotKnownBeforeItWasMeasured) { EXPECT_EQ(rate_.of_last_calls(), 0U); }

TEST_F(Line, HasTheRateOfAWindow) {
  window(20);
  EXPECT_EQ(rate_.of_last_calls(), 20U * 1024U);
}

TEST_F(Line, WhatCameBeforeTheWindowDoesNotCount) {
  pass(100 * kMib, seconds(3));
  window(20);
  EXPECT_EQ(rate_.of_last_calls(), 20U * 1024U);
}

TEST_F(Line, AWindowHas300MillisecondsAtLeast) {
  pass(0, seconds(3));
  pass(2 * kMib, milliseconds(150));
  pass(2 * kMib, nanoseconds(149'999'999));
  EXPECT_EQ(rate_.of_last_calls(), 0U);
  pass(0, nanoseconds(1));
  EXPECT_EQ(rate_.of_last_calls(), 4U * 1024U * 10U / 3U);
}

TEST_F(Line, AWindowHasTwoMebibytesAtLeast) {
  pass(0, seconds(3));
  pass(kMib, milliseconds(500));
  pass(kMib - 1, milliseconds(500));
  EXPECT_EQ(rate_.of_last_calls(), 0U);
  pass(1, seconds(1));
  EXPECT_EQ(rate_.of_last_calls(), 1024U);
}

TEST_F(Line, APauseBeginsAWindowAnew) {
  pass(0, seconds(3));
  pass(kMib, seconds(2));
  pass(4 * kMib, nanoseconds(2'000'000'001));
  EXPECT_EQ(rate_.of_last_calls(), 0U);
  pass(4 * kMib, seconds(2));
  EXPECT_EQ(rate_.of_last_calls(), 2U * 1024U);
}

TEST_F(Line, ALineThatHasCarriedAllBeginsAWindowAnew) {
  pass(0, seconds(3));
  pass(4 * kMib, milliseconds(400), 1);  // what was written last
  EXPECT_EQ(rate_.of_last_calls(), 0U);
  pass(4 * kMib, milliseconds(400), 2);
  EXPECT_EQ(rate_.of_last_calls(), 10U * 1024U);
}

TEST_F(Line, TheBestWindowCounts) {
  window(20);
  window(50);
  window(30);
  EXPECT_EQ(rate_.of_last_calls(), 50U * 1024U);
}

TEST_F(Line, IsThatOfTheLastFourCallsThatMeasuredIt) {
  window(50);
  for (int call = 0; call < 3; ++call) {
    EXPECT_EQ(rate_.of_last_calls(), 50U * 1024U) << call;
    EXPECT_EQ(rate_.of_last_calls(), 50U * 1024U) << "a call that measures nothing";
    window(20);
  }
  EXPECT_EQ(rate_.of_last_calls(), 50U * 1024U);
  EXPECT_EQ(rate_.of_last_calls(), 20U * 1024U);
}

}  // namespace
}  // namespace lockstep::peer
