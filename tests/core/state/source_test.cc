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
  SourceReach reach(seconds(3));
  EXPECT_EQ(reach.deadline(), kNever);
  reach.alone(after(1));
  reach.alone(after(2));
  EXPECT_EQ(reach.deadline(), after(4));
  reach.on_timer(after(3));
  EXPECT_FALSE(reach.is_cut_off());
  reach.on_timer(after(4));
  EXPECT_TRUE(reach.is_cut_off());
  reach.alone(after(5));
  EXPECT_EQ(reach.deadline(), kNever);
}

TEST(SourceReach, ALinkInTimeStartsTheWaitAgain) {
  SourceReach reach(seconds(3));
  reach.alone(after(1));
  reach.linked();
  EXPECT_EQ(reach.deadline(), kNever);
  reach.alone(after(2));
  EXPECT_EQ(reach.deadline(), after(5));
}

}  // namespace
}  // namespace lockstep::state
