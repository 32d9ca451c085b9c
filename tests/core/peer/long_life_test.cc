// A member that runs for months.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/core/peer/peer3.h"

namespace lockstep::peer {
namespace {

// Cohorts were forgotten only when a round ended, and this member launches no rounds.
TEST(LongLife, AMemberThatLaunchesNothingHoldsOneCohort) {
  Peer3 run;
  const auto admitted = [&](std::uint64_t number) {
    run.install(run.proposal(view_of(number, number, {kLow, kMe, kHigh})));
  };
  admitted(2);
  const Holdings young = run.me.holdings();
  for (std::uint64_t number = 3; number < 200; ++number) admitted(number);
  EXPECT_EQ(run.me.holdings().entries, young.entries);
  EXPECT_LE(run.me.holdings().bytes, young.bytes + 1024);
}

// A job token has 32 bits for the number of its operation.
TEST(LongLife, OperationNumbersWrapAfterTwoToThe32) {
  PeerOptions old = options();
  old.first_serial = UINT32_MAX - 2;
  Peer3 run(old, {kMe}, false);
  run.coordinator->say(wire::Waiting{address_of(5), milliseconds(500), seconds(60)});
  run.install(run.proposal(view_of(1, 1, {kMe})));
  const CallId published = run.me.share(true, 5000, 1000);  // the publication lasts for the whole test
  run.me.run();
  for (std::uint64_t tag = 1; tag < 8; ++tag) {
    const CallId call = run.launch(wire::Collective::kAllReduce, 100 + tag);
    ASSERT_NE(run.me.outcome(call), nullptr);
    EXPECT_EQ(run.me.outcome(call)->status, Status::kOk);
  }
  EXPECT_EQ(run.me.outcome(published), nullptr);
}

// The number of calls in one cohort exceeds the range of the use counter.
TEST(LongLife, UsesOfATagWrapAfterTwoToThe32) {
  PeerOptions old = options();
  old.first_use = UINT32_MAX - 1;
  Peer3 run(old, {kLow, kMe, kHigh});
  for (std::uint32_t use = old.first_use;; ++use) {
    const CallId call = run.launch(wire::Collective::kBarrier, 7);
    const auto* done = run.coordinator->last<wire::Done>();
    ASSERT_NE(done, nullptr);
    EXPECT_EQ(done->key, Peer3::key(7, use));
    run.coordinator->say(wire::Commit{done->key, done->attempt, done->hash, false, {}});
    run.me.run();
    ASSERT_NE(run.me.outcome(call), nullptr);
    EXPECT_EQ(run.me.outcome(call)->status, Status::kOk);
    wire::Propose decided = run.proposal(run.me.views.back());  // the outcome of a future use is kept for its launch
    decided.verdicts.push_back({Peer3::key(7, use + 1), Generation{1}, Status::kAborted, 0, {}});
    run.install(decided);
    EXPECT_EQ(run.me.footprint().remembered, 1U) << use;
    const CallId stopped = run.launch(wire::Collective::kBarrier, 7);
    ASSERT_NE(run.me.outcome(stopped), nullptr);
    EXPECT_EQ(run.me.outcome(stopped)->status, Status::kAborted);
    EXPECT_EQ(run.me.footprint().remembered, 0U);
    ++use;
    if (use == 3) break;
  }
}

}  // namespace
}  // namespace lockstep::peer
