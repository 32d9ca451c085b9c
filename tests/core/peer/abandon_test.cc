// The owner abandons the run at any time: a call ends once its memory is back and holds its original bytes.
#include <gtest/gtest.h>

#include "tests/core/peer/small.h"

namespace lockstep::peer {
namespace {

std::vector<std::byte> now_in(const fuzz::PeerHost& me, CallId call) {
  return {me.sent(call).begin(), me.sent(call).end()};
}

void expect_at_rest(const fuzz::PeerHost& me) {
  EXPECT_TRUE(me.all_calls_over());
  EXPECT_EQ(me.footprint().calls, 0U);
  EXPECT_EQ(me.footprint().rounds, 0U);
  EXPECT_EQ(me.footprint().streams, 0U);
  EXPECT_EQ(me.deadline(), kNever);
}

void expect_ended(const fuzz::PeerHost& me, CallId call, Status status) {
  ASSERT_NE(me.outcome(call), nullptr);
  EXPECT_EQ(me.outcome(call)->status, status);
  EXPECT_EQ(me.outcome(call)->text, "enough");
}

TEST(Abandon, AnInputInPlaceIsRestoredBeforeItsCallEnds) {
  Small run(kOwner);
  const CallId call = run.call(7, true);
  run.offered();
  ASSERT_EQ(now_in(run.me, call), plus(run.input)) << "the sum is in memory, and the round is not committed";

  run.me.jobs_held = true;
  run.me.abandon("enough");
  run.me.run();
  ASSERT_TRUE(run.me.run_over);
  EXPECT_FALSE(run.me.run_over->left);
  EXPECT_EQ(run.me.outcome(call), nullptr) << "the job that restores the input has not run";

  run.me.jobs_held = false;
  run.me.run();
  expect_ended(run.me, call, Status::kOutcomeUnknown);
  EXPECT_EQ(now_in(run.me, call), run.input);
  expect_at_rest(run.me);
}

TEST(Abandon, MemoryLentToALinkIsReturnedFirst) {
  Small run(kOwner);
  const CallId call = run.call(7, true);
  const std::vector<std::byte> frame = Small::frame();
  run.low->say(Small::offer());
  run.low->say_bytes(std::span(frame).first(frame.size() - wire::kTrailerBytes - 1));
  run.me.run();

  run.me.abandon("enough");
  EXPECT_EQ(run.me.outcome(call), nullptr) << "the rest of a segment may still arrive";
  run.me.run();
  expect_ended(run.me, call, Status::kOutcomeUnknown);
  EXPECT_EQ(now_in(run.me, call), run.input);
  for (const FarEnd* end : {run.coordinator, run.low, run.high}) EXPECT_TRUE(end->shown_out());
  expect_at_rest(run.me);
}

TEST(Abandon, ADecidedCallKeepsItsOutcome) {
  Small run(kOwner);
  const CallId call = run.call(7, true);
  run.offered();
  const auto* done = run.coordinator->last<wire::Done>();
  ASSERT_NE(done, nullptr);
  run.coordinator->say(wire::Commit{done->key, done->attempt, done->hash, false, {}});
  run.me.run();
  run.me.abandon();
  run.me.run();
  ASSERT_NE(run.me.outcome(call), nullptr);
  EXPECT_EQ(run.me.outcome(call)->status, Status::kOk);
  EXPECT_EQ(now_in(run.me, call), plus(run.input));
}

TEST(Abandon, EveryOtherCallEnds) {
  Peer3 run;
  const CallId admit = run.me.admit(5);
  const CallId queued = run.launch(wire::Collective::kBarrier);  // waits for the next cohort
  const CallId shares = run.me.share(true, 100, 16);
  run.me.run();
  const CallId leave = run.me.leave();
  run.me.abandon("enough");
  run.me.run();
  for (const CallId call : {admit, leave}) expect_ended(run.me, call, Status::kNotConnected);
  ASSERT_NE(run.me.outcome(queued), nullptr);
  ASSERT_NE(run.me.outcome(shares), nullptr);
  expect_at_rest(run.me);
}

TEST(Abandon, MayBeCalledAtAnyTimeAndTwice) {
  fuzz::PeerHost fresh(options());
  Peer3 joining(false);
  Peer3 member;
  Peer3 leaving;
  leaving.me.leave();
  for (fuzz::PeerHost* me : {&fresh, &joining.me, &member.me, &leaving.me}) {
    for (int again = 0; again < 3; ++again) {  // the run ended long before the last call
      me->abandon("enough");
      if (again > 0) me->run();
    }
    ASSERT_TRUE(me->run_over);
    EXPECT_EQ(me->run_over->status, Status::kNotConnected);
    expect_at_rest(*me);
    for (const CallId late : {me->admit(), me->leave(), me->connect()}) EXPECT_NE(me->outcome(late), nullptr);
    expect_at_rest(*me);
  }
  expect_ended(joining.me, joining.connected, Status::kNotConnected);
}

}  // namespace
}  // namespace lockstep::peer
