// Which sources a receiver still asks, and when no source is left (rule 38).
#include <gtest/gtest.h>

#include "core/state/source_reach.h"
#include "core/state/source_trust.h"

namespace lockstep::state {
namespace {

constexpr PeerId kSource{0, 1};
constexpr PeerId kOtherSource{0, 2};

Instant after(int second) { return Instant{} + seconds(second); }

TEST(SourceTrust, ThreeWrongPiecesAreTooMany) {
  SourceTrust trust;
  EXPECT_FALSE(trust.is_one_too_many(kSource));
  EXPECT_FALSE(trust.is_one_too_many(kSource));
  EXPECT_FALSE(trust.is_one_too_many(kOtherSource));
  EXPECT_TRUE(trust.is_one_too_many(kSource));
  EXPECT_TRUE(trust.trusts(kSource)) << "the caller decides";
  trust.distrust(kSource);
  EXPECT_FALSE(trust.trusts(kSource));
  EXPECT_TRUE(trust.trusts(kOtherSource));
}

TEST(SourceReach, AReceiverThatIsAloneForTooLongIsCutOff) {
  SourceReach reach(seconds(9), seconds(1));
  EXPECT_EQ(reach.deadline(), kNever);
  reach.watch({}, after(1));
  reach.watch({}, after(2));
  EXPECT_EQ(reach.deadline(), after(10));
  reach.on_timer(after(9));
  EXPECT_FALSE(reach.is_cut_off());
  reach.on_timer(after(10));
  EXPECT_TRUE(reach.is_cut_off());
  reach.watch({}, after(11));
  EXPECT_EQ(reach.deadline(), kNever);
}

TEST(SourceReach, ALinkThatLastsStartsTheWaitAgain) {
  SourceReach reach(seconds(9), seconds(1));
  reach.watch({}, after(1));
  reach.watch({kSource}, after(9));
  EXPECT_EQ(reach.deadline(), after(11)) << "twice the patience";
  reach.on_timer(after(11));
  EXPECT_FALSE(reach.is_cut_off());
  EXPECT_EQ(reach.deadline(), kNever);
  reach.watch({}, after(12));
  EXPECT_EQ(reach.deadline(), after(21));
}

TEST(SourceReach, ADeliveryStartsTheWaitAgain) {
  SourceReach reach(seconds(9), seconds(1));
  reach.watch({}, after(1));
  reach.watch({kSource}, after(9));
  reach.delivered();
  EXPECT_EQ(reach.deadline(), kNever);
  reach.watch({kSource}, after(10));
  EXPECT_EQ(reach.deadline(), kNever);
}

// Rule 51: the line drips, so each stream is dropped and dialled again.
TEST(SourceReach, ALinkThatBreaksAgainAndAgainIsNoSource) {
  SourceReach reach(seconds(9), seconds(1));
  reach.watch({kSource}, after(0));
  EXPECT_EQ(reach.deadline(), kNever);
  for (int second = 1; second <= 9; ++second) {
    reach.lost(kSource);
    reach.watch({}, after(second));
    EXPECT_EQ(reach.deadline(), after(10));
    reach.watch({kSource}, after(second));
  }
  reach.lost(kSource);
  reach.watch({}, after(10));
  EXPECT_TRUE(reach.is_cut_off());
}

TEST(SourceReach, ALinkWhoseStripesBreakInTurnIsNoSource) {
  SourceReach reach(seconds(9), seconds(1));
  for (int second = 1; second <= 9; ++second) {
    reach.lost(kSource);
    reach.watch({kSource}, after(second));  // another stripe is up
    reach.on_timer(after(second));
  }
  EXPECT_FALSE(reach.is_cut_off());
  reach.lost(kSource);
  reach.watch({kSource}, after(10));
  EXPECT_TRUE(reach.is_cut_off());
}

TEST(SourceReach, OneSourceThatLastsIsEnough) {
  SourceReach reach(seconds(9), seconds(1));
  for (int second = 1; second <= 20; ++second) {
    reach.lost(kSource);
    reach.watch({kSource, kOtherSource}, after(second));
    reach.on_timer(after(second));
  }
  EXPECT_FALSE(reach.is_cut_off());
}

}  // namespace
}  // namespace lockstep::state
