// Calls that wait for a member that has called admit (rule 21).
#include <gtest/gtest.h>

#include "tests/core/peer/peer3.h"

namespace lockstep::peer {
namespace {

// A round of three is open. `low` calls admit and has not launched the round.
struct Admission {
  explicit Admission(bool auto_admit) : run(true, auto_admit), call(run.launch(wire::Collective::kBarrier)) {}

  void low_admits(std::uint32_t at_least, bool automatic = false) {
    run.coordinator->say(wire::Admitting{kLow, CohortId{1}, at_least, automatic, {}});
    run.me.run();
  }
  void pending(std::uint32_t count) {
    run.coordinator->say(wire::Pending{count});
    run.me.run();
  }
  [[nodiscard]] const wire::Admit* admit() const { return run.coordinator->last<wire::Admit>(); }
  [[nodiscard]] const wire::StopRound* stop() const { return run.coordinator->last<wire::StopRound>(); }

  Peer3 run;
  CallId call;
};

TEST(Admitting, WithoutAutoAdmitTheCallIsRefused) {
  Admission given(false);
  given.low_admits(1);
  ASSERT_NE(given.stop(), nullptr);
  EXPECT_EQ(given.stop()->status, Status::kCohortClosed);
  EXPECT_EQ(given.admit(), nullptr);
}

TEST(Admitting, WithAutoAdmitTheCallContinuesInTheNextCohort) {
  Admission given(true);
  given.low_admits(3);
  ASSERT_NE(given.admit(), nullptr);
  EXPECT_TRUE(given.admit()->automatic);
  EXPECT_EQ(given.admit()->open.size(), 1U);
  EXPECT_EQ(given.stop(), nullptr);
}

// The admission that the other member waits for may never come.
TEST(Admitting, WithAutoAdmitACallDoesNotWaitForAWaitForMembers) {
  Admission given(true);
  given.low_admits(4);
  EXPECT_EQ(given.admit(), nullptr);
  ASSERT_NE(given.stop(), nullptr);
  EXPECT_EQ(given.stop()->status, Status::kCohortClosed);
  EXPECT_NE(given.stop()->text.find("p1 did not launch tag 7 before the admission"), std::string::npos)
      << given.stop()->text;
  given.pending(1);
  ASSERT_NE(given.admit(), nullptr) << "enough members wait now";
  EXPECT_TRUE(given.admit()->automatic);
}

// An automatic admit has no condition on the number of members, so the call can continue after the admission.
TEST(Admitting, WithAutoAdmitACallContinuesAfterAnAutomaticAdmit) {
  Admission given(true);
  given.run.me.admit(5);
  given.low_admits(1, true);
  EXPECT_EQ(given.stop(), nullptr);
}

// The automatic admit stays valid, although the caller's admit waits for more members.
TEST(Admitting, WithAutoAdmitACallContinuesAfterAnAdmitCallJoined) {
  Admission given(true);
  given.run.launch(wire::Collective::kBarrier, 8);
  given.low_admits(1);
  ASSERT_NE(given.admit(), nullptr);
  EXPECT_TRUE(given.admit()->automatic);
  given.run.me.admit(5);
  given.low_admits(1);
  EXPECT_EQ(given.run.coordinator->count<wire::Admit>(), 1U);
  EXPECT_EQ(given.stop(), nullptr);
}

// The call continues in the next cohort and is not stopped there.
TEST(Admitting, AnAdmissionOvertakesTheRefusalOfACall) {
  Admission given(true);
  given.low_admits(4);
  given.pending(1);
  ASSERT_NE(given.admit(), nullptr);
  wire::Propose admission = given.run.proposal(view_of(2, 2, {kLow, kMe, kHigh, PeerId{11, 11}}));
  admission.verdicts.push_back({Peer3::key(), Generation{1}, Status::kCohortClosed, 0, "closed"});
  given.run.install(admission);
  EXPECT_EQ(given.run.me.outcome(given.call), nullptr) << "the call continues";
  EXPECT_EQ(given.run.coordinator->count<wire::StopRound>(), 1U);
}

// Other members may cause an admission that admits fewer members than the call waits for.
TEST(Admitting, WithAutoAdmitAnAdmitCallIsRepeatedUntilEnoughMembers) {
  Peer3 run(true, true);
  const CallId call = run.me.admit(4);
  run.me.run();
  ASSERT_EQ(run.coordinator->count<wire::Admit>(), 1U);
  run.install(run.proposal(view_of(2, 2, {kLow, kMe, kHigh})));
  EXPECT_EQ(run.me.outcome(call), nullptr);
  ASSERT_EQ(run.coordinator->count<wire::Admit>(), 2U);
  EXPECT_EQ(run.coordinator->last<wire::Admit>()->cohort, CohortId{2});
  EXPECT_EQ(run.coordinator->last<wire::Admit>()->at_least, 4U);
  run.install(run.proposal(view_of(3, 3, {kLow, kMe, kHigh, PeerId{11, 11}})));
  ASSERT_NE(run.me.outcome(call), nullptr);
  EXPECT_EQ(run.me.outcome(call)->status, Status::kOk);
}

// `me` has called admit: its calls have no round before the next cohort begins.
struct Queued : Peer3 {
  Queued() : admission(me.admit(1)), call(launch(wire::Collective::kBarrier)) {}
  void enter_next_cohort() { install(proposal(view_of(2, 2, {kLow, kMe, kHigh}))); }
  static RoundKey next_key(std::uint32_t use = 0) { return {CohortId{2}, {}, Tag{7}, use}; }

  CallId admission;
  CallId call;
};

TEST(Queued, ACallThatIsStoppedEndsAtOnce) {
  Queued run;
  run.me.stop(run.call);
  run.me.run();
  ASSERT_NE(run.me.outcome(run.call), nullptr);
  EXPECT_EQ(run.me.outcome(run.call)->status, Status::kAborted);
  EXPECT_EQ(run.coordinator->last<wire::StopRound>(), nullptr) << "the call has no round yet";
}

// Otherwise the other members would match the peer's next call of the tag with their current call.
TEST(Queued, AStoppedQueuedCallStopsItsRoundOnceItExists) {
  Queued run;
  run.me.stop(run.call);
  const CallId next = run.launch(wire::Collective::kBarrier);
  run.enter_next_cohort();
  const auto* stop = run.coordinator->last<wire::StopRound>();
  ASSERT_NE(stop, nullptr);
  EXPECT_EQ(stop->key, run.next_key(0));
  EXPECT_EQ(stop->status, Status::kAborted);
  EXPECT_FALSE(stop->done);

  wire::Propose verdict = run.proposal(view_of(2, 2, {kLow, kMe, kHigh}));
  verdict.verdicts.push_back({run.next_key(0), Generation{2}, Status::kAborted, 0, stop->text});
  run.install(verdict);
  EXPECT_EQ(run.me.outcome(next), nullptr);
  EXPECT_EQ(run.me.footprint().calls, 1U);
  const auto* done = run.coordinator->last<wire::Done>();
  ASSERT_NE(done, nullptr);
  EXPECT_EQ(done->key, run.next_key(1)) << "the next call is another use of the tag";
  EXPECT_EQ(run.coordinator->count<wire::Done>(), 1U);
}

// A stopped round does not begin before the coordinator's verdict, even if members are lost in between.
TEST(Queued, AStoppedCallIsStoppedAgainAfterALoss) {
  Queued run;
  run.me.stop(run.call);
  run.enter_next_cohort();
  ASSERT_EQ(run.coordinator->count<wire::StopRound>(), 1U);
  wire::Propose loss = run.proposal(view_of(3, 2, {kLow, kMe}));
  loss.lost = {kHigh};
  run.install(loss);
  ASSERT_EQ(run.coordinator->count<wire::StopRound>(), 2U);
  EXPECT_EQ(run.coordinator->last<wire::StopRound>()->attempt, Generation{3});
  EXPECT_EQ(run.coordinator->last<wire::Done>(), nullptr);
}

}  // namespace
}  // namespace lockstep::peer
