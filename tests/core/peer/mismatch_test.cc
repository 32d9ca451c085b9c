// Arguments that differ between neighbours (rules 11 and 52).
#include <gtest/gtest.h>

#include "tests/core/peer/peer3.h"

namespace lockstep::peer {
namespace {

// A member whose all-reduce of tag 7 has other arguments than that of high, its downstream neighbour.
struct Differing {
  Differing() {
    call = run.launch(wire::Collective::kAllReduce, 7, 3000);
    wire::Ready ready = *run.low->last<wire::Ready>();
    ready.what.count = 3001;
    run.high->say(ready);
    run.me.run();
  }
  Peer3 run;
  CallId call;
};

TEST(Mismatch, NamesTheOtherMember) {
  Differing differing;
  const auto* stop = differing.run.coordinator->last<wire::StopRound>();
  ASSERT_NE(stop, nullptr);
  EXPECT_EQ(stop->status, Status::kMismatch);
  EXPECT_EQ(stop->other, kHigh);
}

TEST(Mismatch, GoesOnWithoutTheOtherMemberOnceThatIsGone) {
  Differing differing;
  Peer3& run = differing.run;
  run.install(run.loss_of(kHigh));
  EXPECT_EQ(run.coordinator->count<wire::StopRound>(), 1U);
  EXPECT_EQ(run.me.outcome(differing.call), nullptr);
  EXPECT_EQ(run.low->last<wire::Ready>()->attempt, Generation{2});
  run.expect_alive();
}

TEST(Mismatch, IsSaidAgainWhileTheOtherMemberIsThere) {
  Differing differing;
  Peer3& run = differing.run;
  run.install(run.loss_of(kLow));
  EXPECT_EQ(run.coordinator->count<wire::StopRound>(), 2U);
}

}  // namespace
}  // namespace lockstep::peer
