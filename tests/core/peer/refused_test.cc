// Calls that the caller's own side refuses (rule 42).
#include <gtest/gtest.h>

#include "tests/core/peer/peer3.h"

namespace lockstep::peer {
namespace {

constexpr const char* kWhy = "out has another dtype";
constexpr wire::Collective kEvery[] = {
    wire::Collective::kAllReduce, wire::Collective::kReduceScatter, wire::Collective::kAllGather,
    wire::Collective::kBroadcast, wire::Collective::kBarrier,       wire::Collective::kSync,
    wire::Collective::kReduce,    wire::Collective::kGather,        wire::Collective::kScatter,
    wire::Collective::kAllToAll,
};

struct Refusing : Peer3 {
  using Peer3::Peer3;
  CallId refuse(wire::Collective collective = wire::Collective::kAllReduce, std::uint64_t tag = 7) {
    const CallId call = me.refuse(collective, Tag{tag}, kWhy);
    me.run();
    return call;
  }
  [[nodiscard]] const wire::StopRound* stop() const { return coordinator->last<wire::StopRound>(); }
  void lose_the_others() {
    wire::Propose loss = proposal(view_of(2, 1, {kMe}));
    loss.lost = {kLow, kHigh};
    install(loss);
  }
};

TEST(Refused, ACallEndsAtOnceAndTheRoundForAll) {
  for (const wire::Collective collective : kEvery) {
    SCOPED_TRACE(wire::name_of(collective));
    Refusing run;
    const CallId call = run.refuse(collective);
    ASSERT_NE(run.me.outcome(call), nullptr);
    EXPECT_EQ(run.me.outcome(call)->status, Status::kInvalidArgument);
    EXPECT_EQ(run.me.outcome(call)->text, kWhy) << "the caller knows who it is";
    EXPECT_EQ(run.me.outcome(call)->round, Peer3::key());
    ASSERT_NE(run.stop(), nullptr);
    EXPECT_EQ(run.stop()->key, Peer3::key());
    EXPECT_EQ(run.stop()->status, Status::kInvalidArgument);
    EXPECT_NE(run.stop()->text.find(std::string("me refused its ") + std::string(wire::name_of(collective)) +
                                    " with tag 7: " + kWhy),
              std::string::npos)
        << run.stop()->text;
    run.stopped({7});
    EXPECT_TRUE(run.me.all_calls_over());
    run.expect_alive();
  }
}

TEST(Refused, ACallTakesItsUseOfTheTag) {
  Refusing run;
  run.refuse();
  run.launch(wire::Collective::kBarrier);
  ASSERT_NE(run.coordinator->last<wire::Done>(), nullptr);
  EXPECT_EQ(run.coordinator->last<wire::Done>()->key, Peer3::key(7, 1));
}

TEST(Refused, ACallWithInvalidArgumentsIsTold) {
  Refusing run;
  ring::Request request;
  request.collective = wire::Collective::kBroadcast;  // without a root
  request.tag = Tag{7};
  const CallId call = run.me.launch(request, 12);
  run.me.run();
  ASSERT_NE(run.me.outcome(call), nullptr);
  EXPECT_EQ(run.me.outcome(call)->status, Status::kInvalidArgument);
  ASSERT_NE(run.stop(), nullptr);
  EXPECT_NE(run.stop()->text.find("me refused its broadcast with tag 7: a broadcast needs a root"), std::string::npos)
      << run.stop()->text;
}

// The round has ended for the others before: the refusal takes the use of the tag, and tells nobody.
TEST(Refused, ARoundThatIsOverIsNotStoppedAgain) {
  Refusing run;
  run.stopped({7});
  const CallId call = run.refuse();
  EXPECT_EQ(run.stop(), nullptr);
  EXPECT_EQ(run.me.outcome(call)->text, kWhy);
  run.launch(wire::Collective::kBarrier);
  ASSERT_NE(run.coordinator->last<wire::Done>(), nullptr);
  EXPECT_EQ(run.coordinator->last<wire::Done>()->key, Peer3::key(7, 1));
}

TEST(Refused, ALossRepeatsTheStopInTheNextAttempt) {
  Refusing run;
  run.refuse();
  const auto stops = run.coordinator->count<wire::StopRound>();
  run.install(run.loss_of(kHigh));
  EXPECT_EQ(run.coordinator->count<wire::StopRound>(), stops + 1);
  EXPECT_EQ(run.stop()->attempt, Generation{2});
}

// The others' calls of this use of the tag wait in the next cohort.
TEST(Refused, ACallAfterAdmitIsToldInTheNextCohort) {
  Refusing run;
  run.me.admit(1);
  const CallId call = run.refuse();
  ASSERT_NE(run.me.outcome(call), nullptr);
  EXPECT_EQ(run.stop(), nullptr);
  run.install(run.proposal(view_of(2, 2, {kLow, kMe, kHigh})));
  ASSERT_NE(run.stop(), nullptr);
  EXPECT_EQ(run.stop()->key, (RoundKey{CohortId{2}, {}, Tag{7}, 0}));
}

TEST(Refused, WhatNeighboursSayOfTheRoundIsIgnored) {
  Refusing run;
  run.refuse();
  wire::Descriptor what;
  what.collective = wire::Collective::kAllReduce;
  run.high->say(wire::Ready{.key = Peer3::key(),
                            .attempt = Generation{1},
                            .what = what,
                            .landing = true,
                            .have = {},
                            .has_parameter = false,
                            .parameter = 0});
  run.me.run();
  EXPECT_EQ(run.coordinator->count<wire::StopRound>(), 1U);
  run.stopped({7});
  run.expect_alive();
}

// Rule 33: the only member needs no verdict, and holds nothing for one.
TEST(Refused, ACallOfTheOnlyMemberIsOverAtOnce) {
  Refusing run;
  run.lose_the_others();
  for (std::size_t i = 0; i < std::size_t{2} * kRoundWindow; ++i) run.refuse();
  EXPECT_EQ(run.stop(), nullptr);
  EXPECT_TRUE(run.me.all_calls_over());
  EXPECT_EQ(run.me.footprint().rounds, 0U);
  const CallId barrier = run.launch(wire::Collective::kBarrier);
  ASSERT_NE(run.me.outcome(barrier), nullptr);
  EXPECT_EQ(run.me.outcome(barrier)->status, Status::kOk);
}

TEST(Refused, TheNextAttemptOfTheOnlyMemberEndsWithoutAVerdict) {
  Refusing run;
  run.refuse();
  EXPECT_EQ(run.coordinator->count<wire::StopRound>(), 1U);
  EXPECT_EQ(run.me.footprint().rounds, 1U);
  run.lose_the_others();
  EXPECT_EQ(run.coordinator->count<wire::StopRound>(), 1U);
  EXPECT_EQ(run.me.footprint().rounds, 0U);
}

// The coordinator holds the cohort for the rounds that its members had open when they called admit.
TEST(Refused, TheOnlyMemberAsksTheCoordinatorOnceItHasAdmitted) {
  Refusing run;
  run.lose_the_others();
  run.me.admit(1);
  run.refuse();
  EXPECT_EQ(run.stop(), nullptr) << "the round waits for the next cohort";
  run.install(run.proposal(view_of(3, 2, {kMe})));
  EXPECT_EQ(run.stop(), nullptr) << "where this peer is alone again";
  EXPECT_EQ(run.me.footprint().rounds, 0U);
}

TEST(Refused, ACallOfAPeerThatIsNoMemberIsToldToNobody) {
  Refusing run(false);
  const CallId call = run.refuse();
  ASSERT_NE(run.me.outcome(call), nullptr);
  EXPECT_EQ(run.me.outcome(call)->status, Status::kNotConnected);
  EXPECT_EQ(run.stop(), nullptr);
}

}  // namespace
}  // namespace lockstep::peer
