#include "sim/flow/stream_limits.h"

#include <gtest/gtest.h>

#include "sim/flow/max_min.h"

namespace lockstep::sim::flow {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

TEST(StreamLimits, AWindowGoesOncePerRoundTrip) {
  EXPECT_EQ(window_cap(1'000'000, 100 * kMillisecond), 10'000'000U);
  EXPECT_EQ(window_cap(1'000'000, 0), kMostRate);
}

// 1448 B / 80 ms * 1.2247 * sqrt(1000): 0.1 % loss at 40 ms one way leaves 5.6 Mbit/s.
TEST(StreamLimits, RenoGoesWithTheRootOfLosses) {
  EXPECT_NEAR(static_cast<double>(loss_cap(Congestion::kReno, 1000, 80 * kMillisecond)), 701'000, 1'000);
  EXPECT_NEAR(static_cast<double>(loss_cap(Congestion::kReno, 4000, 80 * kMillisecond)), 350'500, 1'000);
  EXPECT_EQ(loss_cap(Congestion::kReno, 0, 80 * kMillisecond), kMostRate);
}

// RFC 9438: where losses are frequent or paths short it is as fast as Reno, else faster: 40 ms and one in a million
// make 1.0538 * (0.04 * 10^6)^0.75 = 2980 packets, Reno 1225.
TEST(StreamLimits, CubicIsFasterThanRenoWhereLossesAreRare) {
  EXPECT_EQ(loss_cap(Congestion::kCubic, 10'000, 80 * kMillisecond),
            loss_cap(Congestion::kReno, 10'000, 80 * kMillisecond));
  EXPECT_NEAR(static_cast<double>(loss_cap(Congestion::kCubic, 1, 40 * kMillisecond)), 2980.6 * 1448 / 0.04, 100'000);
}

TEST(StreamLimits, BbrBearsLossesUntilTheyAreHeavy) {
  EXPECT_EQ(loss_cap(Congestion::kBbr, 100'000, 80 * kMillisecond), kMostRate);
  EXPECT_EQ(loss_cap(Congestion::kBbr, 300'000, 80 * kMillisecond),
            loss_cap(Congestion::kReno, 300'000, 80 * kMillisecond));
}

TEST(StreamLimits, SharesAreInverselyProportionalToRoundTrips) {
  const auto with_queue = [](std::int64_t ms) { return static_cast<double>(weight_of(ms * kMillisecond)); };
  EXPECT_NEAR(with_queue(0) / with_queue(100), 2, 0.01);  // a full queue takes 100 ms
  EXPECT_NEAR(with_queue(20) / with_queue(140), 2, 0.01);
  EXPECT_GT(weight_of(1'000'000 * kMillisecond), 0U);
}

}  // namespace
}  // namespace lockstep::sim::flow
