// The grace period: how long a peer waits for the coordinator's answer to a request (rule 15).
#include <gtest/gtest.h>

#include "tests/core/peer/peer3.h"

namespace lockstep::peer {
namespace {

const Duration kGrace = PeerOptions{}.abort_grace;

struct Clock : Peer3 {
  void pass(Duration time) {
    me.pass(time);
    me.run();
  }
};

// A round whose call was aborted; the coordinator has not answered.
struct Grace : Clock {
  Grace() : call(launch(wire::Collective::kBarrier)) {
    me.stop(call);
    me.run();
    EXPECT_NE(coordinator->last<wire::StopRound>(), nullptr);
  }
  void expect_left() {
    ASSERT_TRUE(me.run_over);
    EXPECT_EQ(me.run_over->status, Status::kOutcomeUnknown);
    ASSERT_NE(me.outcome(call), nullptr);
    EXPECT_EQ(me.outcome(call)->status, Status::kOutcomeUnknown);
  }

  CallId call;
};

TEST(Grace, EndsWithoutAnAnswer) {
  Grace g;
  g.pass(kGrace - kTick);
  EXPECT_FALSE(g.me.run_over);
  g.pass(kTick);
  g.expect_left();
}

// Swarm seed 1248280: members were lost one after another, so each proposal was replaced before all members had
// answered it.
TEST(Grace, RestartsWithEachProposal) {
  Grace g;
  for (std::uint64_t view = 2; view < 5; ++view) {
    g.pass(kGrace - kTick);
    g.propose(g.loss_of(kHigh, view));
  }
  g.pass(kGrace - kTick);
  EXPECT_FALSE(g.me.run_over);
  g.pass(kTick);
  g.expect_left();
}

// Its round begins, with a request to stop it, in the cohort for which the call waited.
TEST(Grace, BeginsWithTheRoundOfACallThatWasAbortedInAQueue) {
  Clock run;
  run.me.admit();
  const CallId call = run.launch(wire::Collective::kBarrier);
  run.me.stop(call);
  run.pass(kGrace);
  EXPECT_EQ(run.coordinator->last<wire::StopRound>(), nullptr);
  run.install(run.proposal(view_of(2, 2, {kLow, kMe, kHigh})));
  EXPECT_NE(run.coordinator->last<wire::StopRound>(), nullptr);
  run.pass(kGrace - kTick);
  EXPECT_FALSE(run.me.run_over);
  run.pass(kTick);
  ASSERT_TRUE(run.me.run_over);
  EXPECT_EQ(run.me.run_over->status, Status::kOutcomeUnknown);
}

TEST(Grace, EndsForACancelledAdmit) {
  Clock run;
  run.me.stop(run.me.admit(3));
  run.me.run();
  run.pass(kGrace - kTick);
  EXPECT_FALSE(run.me.run_over);
  run.pass(kTick);
  EXPECT_TRUE(run.me.run_over);
}

TEST(Grace, RestartsForACancelledAdmit) {
  Clock run;
  const CallId call = run.me.admit(3);
  run.me.stop(call);
  run.me.run();
  run.pass(kGrace - kTick);
  run.propose(run.loss_of(kHigh));
  run.pass(kGrace - kTick);
  EXPECT_FALSE(run.me.run_over);
  run.pass(kTick);
  ASSERT_TRUE(run.me.run_over);
}

}  // namespace
}  // namespace lockstep::peer
