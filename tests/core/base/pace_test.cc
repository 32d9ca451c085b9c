#include "core/base/pace.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Pace, SpacesPiecesByTheirBytes) {
  Pace pace(1000);
  EXPECT_TRUE(pace.allows(Instant{5}));
  pace.sent(500, Instant{5});
  EXPECT_EQ(pace.next(), Instant{5} + milliseconds(500));
  EXPECT_FALSE(pace.allows(pace.next() - nanoseconds(1)));
  EXPECT_TRUE(pace.allows(pace.next()));
  pace.sent(1, pace.next());
  EXPECT_EQ(pace.next(), Instant{5} + milliseconds(501));
}

TEST(Pace, DoesNotAccumulateUnusedRate) {
  Pace pace(1000);
  pace.sent(1, Instant{} + seconds(100));
  EXPECT_EQ(pace.next(), Instant{} + seconds(100) + milliseconds(1));
}

TEST(Pace, LetsPiecesGoAheadSoThatALateTimerLosesNothing) {
  Pace pace(1000, milliseconds(20));
  const Instant start{1'000'000'000};
  pace.sent(10, start);
  EXPECT_TRUE(pace.allows(start));
  pace.sent(20, start);
  EXPECT_FALSE(pace.allows(start));
  EXPECT_EQ(pace.next(), start + milliseconds(10));
  pace.sent(10, start + milliseconds(15));
  EXPECT_EQ(pace.next(), start + milliseconds(20)) << "as if it had gone at its time";
}

TEST(Pace, WithoutALimitDelaysNothing) {
  Pace pace(0);
  pace.sent(1U << 20U, Instant{7});
  EXPECT_TRUE(pace.allows(Instant{7}));
}

}  // namespace
}  // namespace lockstep
