#include "core/peer/line_rate.h"

#include <gtest/gtest.h>

namespace lockstep::peer {
namespace {

constexpr std::uint64_t kMib = 1U << 20U;

class Line : public ::testing::Test {
 protected:
  // `bytes` are acknowledged after `time`.
  void pass(std::uint64_t bytes, Duration time) {
    now_ = now_ + time;
    rate_.acknowledged(bytes, now_);
  }
  // A window that begins anew and has this rate.
  void window(std::uint64_t mib_per_s) {
    pass(0, seconds(1));
    for (int i = 0; i < 4; ++i) pass(mib_per_s * kMib / 10, milliseconds(100));
  }

  Instant now_{1'000'000'000};
  LineRate rate_{milliseconds(300), 2 * kMib};
};

TEST_F(Line, IsNotKnownBeforeItWasMeasured) { EXPECT_EQ(rate_.of_last_calls(), 0U); }

TEST_F(Line, HasTheRateOfAWindow) {
  window(20);
  EXPECT_EQ(rate_.of_last_calls(), 20U * 1024U);
}

TEST_F(Line, WhatCameBeforeTheWindowDoesNotCount) {
  pass(100 * kMib, seconds(1));
  window(20);
  EXPECT_EQ(rate_.of_last_calls(), 20U * 1024U);
}

TEST_F(Line, AWindowHas300MillisecondsAtLeast) {
  pass(0, seconds(1));
  pass(2 * kMib, milliseconds(150));
  pass(2 * kMib, nanoseconds(149'999'999));
  EXPECT_EQ(rate_.of_last_calls(), 0U);
  pass(0, nanoseconds(1));
  EXPECT_EQ(rate_.of_last_calls(), 4U * 1024U * 10U / 3U);
}

TEST_F(Line, AWindowHasTwoMebibytesAtLeast) {
  pass(0, seconds(1));
  for (int i = 0; i < 3; ++i) pass(kMib / 2, milliseconds(200));
  pass(kMib / 2 - 1, milliseconds(200));
  EXPECT_EQ(rate_.of_last_calls(), 0U);
  pass(1, milliseconds(200));
  EXPECT_EQ(rate_.of_last_calls(), 2U * 1024U);
}

TEST_F(Line, APauseBeginsAWindowAnew) {
  pass(0, seconds(1));
  pass(4 * kMib, milliseconds(200));
  pass(4 * kMib, milliseconds(201));
  EXPECT_EQ(rate_.of_last_calls(), 0U);
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
