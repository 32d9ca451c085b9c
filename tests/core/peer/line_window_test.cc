#include "core/peer/line_window.h"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace lockstep::peer {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;
constexpr StripesNow kTwoStripes{2, false};
constexpr StripesNow kManyStripes{64, true};

TEST(LineWindow, IsAGuessWhileTheRateIsNotKnown) {
  EXPECT_EQ(that_fills(0, milliseconds(80), kTwoStripes, 2 * kMiB), (ring::UnderWay{2 * kMiB, 4, true}));
}

TEST(LineWindow, IsWhatALineCarriesInTwoRoundTrips) {
  EXPECT_EQ(that_fills(10 * 1024, milliseconds(100), kTwoStripes, 1), (ring::UnderWay{2 * kMiB, 4, false}));
}

TEST(LineWindow, IsTwiceAsLargeWhileTwiceAsManyStreamsAreOnTrial) {
  EXPECT_EQ(that_fills(10 * 1024, milliseconds(100), {4, true}, 1), (ring::UnderWay{4 * kMiB, 8, false}));
  EXPECT_EQ(that_fills(10 * 1024, milliseconds(100), {4, false}, 1).bytes, 2 * kMiB);
}

TEST(LineWindow, KeepsEachStripeBusy) { EXPECT_EQ(that_fills(1, milliseconds(1), kManyStripes, 1).segments, 128U); }

TEST(LineWindow, NothingOverflows) {
  constexpr ring::Rate kFastest = std::numeric_limits<ring::Rate>::max();
  EXPECT_EQ(that_fills(kFastest, seconds(4), kManyStripes, 1).bytes, std::uint64_t{16} * kFastest * 1024);
  EXPECT_EQ(that_fills(kFastest, seconds(4'000'000), kManyStripes, 1).bytes, std::uint64_t{16} * kFastest * 1024);
}

}  // namespace
}  // namespace lockstep::peer
