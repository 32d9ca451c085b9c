// Rules 23, 36 and 51 of docs/protocol.md at the coordinator: members whose streams bring nearly nothing, links to
// avoid, and whom a broken link costs the run.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/core/coordinator/meeting.h"

namespace lockstep::coordinator {
namespace {

TEST(CoordinatorProgress, AMemberWhoseStreamDripsIsOut) {
  Meeting run(4);
  run.pass(seconds(2));
  std::vector<std::byte> flush;
  wire::encode(wire::Heartbeat{}, Term{1}, flush);
  const Instant began = run.coordinator.now;
  for (std::size_t i = 0; run.evicted(2).empty() && i < 100; ++i) {
    if (i % 20 == 18) run.ends[2]->say_bytes(std::span(flush).subspan(i / 20, 1));
    run.pass(milliseconds(50), {run.ends[2]});
  }
  EXPECT_NE(run.evicted(2).find("its stream to the coordinator is nearly dead"), std::string::npos) << run.evicted(2);
  EXPECT_LE(run.coordinator.now - began, milliseconds(1300));
  run.answer_all();
  EXPECT_EQ(run.members(), 3U);
  const auto troubles = run.coordinator.status().troubles;
  ASSERT_EQ(troubles.size(), 1U);
  EXPECT_EQ(troubles[0].peer, Meeting::id(2));
  EXPECT_NE(troubles[0].text.find("p2"), std::string::npos);
}

// The coordinator stands still for so short a time that its timer does not tell, and reads a part of a heartbeat first.
TEST(CoordinatorProgress, ACoordinatorThatStoodStillReadsOnBeforeItEvicts) {
  std::vector<std::byte> beat;
  wire::encode(wire::Heartbeat{}, Term{1}, beat);
  for (int phase = 0; phase < 500; phase += 50) {
    for (int quiet = 200; quiet <= 500; quiet += 50) {
      for (int still = 500; still <= 900; still += 50) {
        Meeting run(3);
        run.pass(seconds(2) + milliseconds(phase));
        run.pass(milliseconds(quiet), {run.ends[2]});
        run.ends[2]->say_bytes(std::span(beat).first(15));
        run.coordinator.now = run.coordinator.now + milliseconds(still);
        run.coordinator.run();
        run.coordinator.pass({});
        run.coordinator.run();
        ASSERT_EQ(run.evicted(2), "") << phase << " " << quiet << " " << still;
        run.ends[2]->say_bytes(std::span(beat).subspan(15));
        run.pass(seconds(1));
        ASSERT_EQ(run.evicted(2), "");
      }
    }
  }
}

TEST(CoordinatorProgress, ASilentMemberKeepsItsTime) {
  Meeting run(4);
  run.pass(seconds(2));
  run.pass(milliseconds(2800), {run.ends[2]});
  EXPECT_EQ(run.evicted(2), "");
  run.pass(milliseconds(400), {run.ends[2]});
  EXPECT_EQ(run.evicted(2), "silent for 3000 ms");
}

TEST(CoordinatorProgress, ARingAvoidsALinkIfItCostsNoMember) {
  Meeting four(4);
  four.pass(seconds(1));
  four.ends[0]->say(wire::LinkBroken{Meeting::id(1), "slow", true});
  four.answer_all();
  EXPECT_EQ(four.view(), 2U);
  EXPECT_EQ(four.members(), 4U);
  // One after the other: when everything is slow, no ring is better than another.
  four.ends[2]->say(wire::LinkBroken{Meeting::id(1), "slow", true});
  four.answer_all();
  EXPECT_EQ(four.view(), 2U);

  Meeting three(3);
  three.pass(seconds(1));
  three.ends[0]->say(wire::LinkBroken{Meeting::id(1), "slow", true});
  three.answer_all();
  three.pass(seconds(1));
  EXPECT_EQ(three.view(), 1U);
  EXPECT_EQ(three.members(), 3U);
  ASSERT_FALSE(three.coordinator.status().troubles.empty());
  EXPECT_NE(three.coordinator.status().troubles.back().text.find("had better not send to"), std::string::npos);
}

// A ring is laid around a broken link, but a call with the direct algorithm needs it.
TEST(CoordinatorProgress, ALinkThatIsNeededAroundTheRingCostsAMember) {
  for (const bool broken : {true, false}) {
    Meeting run(4);
    run.pass(seconds(1));
    run.ends[0]->say(wire::LinkBroken{Meeting::id(1), "nearly dead", !broken});
    run.answer_all();
    EXPECT_EQ(run.view(), 2U);
    run.pass(milliseconds(950));
    run.ends[0]->say(wire::LinkBroken{Meeting::id(1), "no stream", true});
    run.answer_all();
    EXPECT_EQ(run.members(), 4U);  // within two heartbeats of the moment when the ring was laid
    run.pass(milliseconds(50));
    run.ends[0]->say(wire::LinkBroken{Meeting::id(1), "no stream", true});
    run.answer_all();
    EXPECT_EQ(run.members(), broken ? 3U : 4U);
    EXPECT_EQ(run.evicted(1).find("a call still needs that link") != std::string::npos, broken);
  }
}

// Another ring would not help, whoever reports it.
TEST(CoordinatorProgress, ALinkThatTurnsOutToBeBrokenLongAfterItWasAvoidedCostsAMember) {
  for (std::uint32_t a = 0; a < 4; ++a) {
    for (const bool late : {true, false}) {
      const std::uint32_t b = (a + 1) % 4;
      Meeting run(4);
      run.pass(seconds(1));
      run.ends[a]->say(wire::LinkBroken{Meeting::id(b), "slow", true});
      run.answer_all();
      EXPECT_EQ(run.view(), 2U);
      run.pass(milliseconds(late ? 1000 : 950));
      run.ends[a]->say(wire::LinkBroken{Meeting::id(b), "no stream for 8000 ms"});
      run.answer_all();
      EXPECT_EQ(run.members(), late ? 3U : 4U);
      EXPECT_EQ(run.evicted(b).find("a call still needs that link") != std::string::npos, late);
    }
  }
}

// Rule 57. The round goes around the ring next time.
TEST(CoordinatorProgress, AViewNamesTheGroupInWhichALinkIsBrokenOrToAvoid) {
  for (const bool avoid : {false, true}) {
    SCOPED_TRACE(avoid);
    Meeting run(4);
    run.pass(seconds(1));
    const auto proposed = [&] { return *run.ends[0]->last<wire::Propose>(); };
    EXPECT_TRUE(proposed().view.unmeshed.empty());
    run.ends[0]->say(wire::LinkBroken{Meeting::id(1), "no stream", avoid});
    run.answer_all();
    EXPECT_EQ(run.view(), 2U);
    EXPECT_EQ(proposed().view.unmeshed, std::vector<GroupId>{GroupId{}});
    EXPECT_EQ(run.coordinator.status().view.unmeshed, std::vector<GroupId>{GroupId{}});

    const RoundKey round{run.coordinator.status().view.cohort, GroupId{}, Tag{7}, 0};
    run.ends[0]->say(wire::StopRound{round, Generation{2}, Status::kAborted, false, "enough"});
    run.answer_all();
    EXPECT_EQ(proposed().verdicts.size(), 1U);
    EXPECT_EQ(proposed().view.number, ViewNumber{2}) << "nothing changes but a round";
    EXPECT_EQ(proposed().view.unmeshed, std::vector<GroupId>{GroupId{}});

    run.ends[1]->hang_up();
    run.answer_all(run.ends[1]);
    EXPECT_EQ(run.view(), 3U);
    EXPECT_EQ(run.members(), 3U);
    EXPECT_TRUE(proposed().view.unmeshed.empty()) << "an end of the link is gone";
  }
}

// A ring of three has no way around: the link stays one like any other.
TEST(CoordinatorProgress, ALinkThatNoRingCanAvoidKeepsItsGroupMeshed) {
  Meeting three(3);
  three.pass(seconds(1));
  three.ends[0]->say(wire::LinkBroken{Meeting::id(1), "slow", true});
  three.answer_all();
  three.ends[2]->hang_up();
  three.answer_all(three.ends[2]);
  EXPECT_EQ(three.view(), 2U);
  EXPECT_TRUE(three.coordinator.status().view.unmeshed.empty());
}

// A ring is laid around the link already.
TEST(CoordinatorProgress, ALinkThatIsReportedTwiceAtOnceKeepsNoOtherLinkFromBeingAvoided) {
  Meeting run(5);
  run.pass(seconds(1));
  run.ends[0]->say(wire::LinkBroken{Meeting::id(1), "nearly dead"});
  run.ends[0]->say(wire::LinkBroken{Meeting::id(1), "no stream", true});
  run.answer_all();
  EXPECT_EQ(run.view(), 2U);
  run.pass(milliseconds(100));
  const auto& ring = run.coordinator.status().view.members;
  const auto end = static_cast<std::size_t>(ring[0].id.low - 1);
  run.ends[end]->say(wire::LinkBroken{ring[1].id, "slow", true});
  run.answer_all();
  EXPECT_EQ(run.view(), 3U);
  EXPECT_EQ(run.members(), 5U);
}

// A report of long ago does not count: the link may have worked since.
TEST(CoordinatorProgress, ALinkThatWasBrokenLongAgoMayBeSlow) {
  Meeting run(4);
  run.pass(seconds(1));
  run.ends[0]->say(wire::LinkBroken{Meeting::id(1), "nearly dead"});
  run.answer_all();
  run.pass(seconds(6));
  run.ends[0]->say(wire::LinkBroken{Meeting::id(1), "slow", true});
  run.answer_all();
  EXPECT_EQ(run.members(), 4U);
}

// A member that is not heard for two heartbeats.
TEST(CoordinatorProgress, NoRingIsLaidAroundAMemberThatStandsStill) {
  for (const bool still : {false, true}) {
    Meeting run(4);
    run.pass(seconds(1));
    run.pass(milliseconds(still ? 1000 : 900), {run.ends[1]});
    run.ends[0]->say(wire::LinkBroken{Meeting::id(1), "no stream", true});
    run.answer_all();
    EXPECT_EQ(run.view(), still ? 1U : 2U);
  }
}

// What hurts all links of a member is reported link by link.
TEST(CoordinatorProgress, TheMemberWithMoreBrokenLinksGoes) {
  for (const std::uint32_t victim : {0U, 1U, 2U}) {
    Meeting run(3);
    run.pass(seconds(1));
    for (std::uint32_t i = 0; i < 3; ++i) {
      if (i == victim) continue;
      run.ends[i]->say(wire::LinkBroken{Meeting::id(victim), "nearly dead"});
      run.coordinator.run();
      run.pass(milliseconds(50));
    }
    run.answer_all();
    EXPECT_NE(run.evicted(victim), "");
    EXPECT_EQ(run.members(), 2U);
  }
}

// The lines of one member drip. The link to its first neighbour is reported, and the ring laid around it; that the link
// to the next neighbour does not come up is reported later than the first report counts.
TEST(CoordinatorProgress, AReportOfLongAgoDecidesBetweenEquals) {
  for (const std::uint32_t victim : {0U, 1U, 2U, 3U}) {
    Meeting run(4);
    run.pass(seconds(1));
    const std::uint32_t first = (victim + 1) % 4;
    run.ends[first]->say(wire::LinkBroken{Meeting::id(victim), "nearly dead"});
    run.answer_all();
    run.pass(seconds(11));
    const std::uint32_t second = (victim + 2) % 4;
    run.ends[second]->say(wire::LinkBroken{Meeting::id(victim), "no stream"});
    run.answer_all();
    run.pass(milliseconds(300));
    run.answer_all();
    for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(run.evicted(i).empty(), i != victim) << i << ": " << run.evicted(i);
  }
}

TEST(CoordinatorProgress, OneBrokenLinkOfThreeCostsAMemberInAMoment) {
  Meeting run(3);
  run.pass(seconds(1));
  run.ends[0]->say(wire::LinkBroken{Meeting::id(1), "nearly dead"});
  run.coordinator.run();
  run.answer_all();
  EXPECT_EQ(run.members(), 3U);
  run.pass(milliseconds(200));
  run.answer_all();
  EXPECT_EQ(run.members(), 3U) << "half a heartbeat, in which others may report theirs";
  run.pass(milliseconds(50));
  run.answer_all();
  EXPECT_EQ(run.members(), 2U);
  EXPECT_EQ(run.evicted(2), "");
}

// It lives and is heard, so that its answer would have come.
TEST(CoordinatorProgress, AMemberThatIsHeardAndDoesNotAnswerIsOutSoon) {
  Meeting run(4);
  run.pass(seconds(1));
  run.ends[0]->hang_up();
  run.coordinator.run();
  run.answer_all(run.ends[1]);
  run.pass(milliseconds(1400), {run.ends[0]});
  EXPECT_EQ(run.evicted(1), "");
  run.pass(milliseconds(700), {run.ends[0]});
  EXPECT_NE(run.evicted(1).find("did not answer a proposal"), std::string::npos);
  run.answer_all();
  EXPECT_EQ(run.members(), 2U);
}

// Rule 36: half a silence, or eight round trips, and two milliseconds for each entry; two silences at most.
TEST(CoordinatorProgress, AMemberThatIsHeardHasExactlyAsLongForItsAnswerAsItsLineNeeds) {
  struct Case {
    Duration round_trip;
    std::int64_t limit = 0;
  };
  for (const Case& one : {Case{milliseconds(100), 1500}, Case{milliseconds(300), 2400}, Case{seconds(2), 6000}}) {
    SCOPED_TRACE(one.limit);
    Meeting run(4, one.round_trip);
    run.pass(seconds(1));
    run.ends[0]->hang_up();
    run.coordinator.run();
    run.answer_all(run.ends[1]);
    const Instant asked = run.coordinator.now;
    while (run.evicted(1).empty() && run.coordinator.now - asked < seconds(10))
      run.pass(milliseconds(50), {run.ends[0]});
    const std::int64_t entries = one.limit == 6000 ? 0 : 2 * 3;  // members
    EXPECT_EQ(run.evicted(1), "did not answer a proposal within " + std::to_string(one.limit + entries) + " ms");
  }
}

// It stands still, and answers as soon as it goes on.
// Its line is narrow: the answer stands behind what it said before.
TEST(CoordinatorProgress, AMemberWhoseOtherMessagesStillComeMayAnswerLate) {
  Meeting run(4);
  run.pass(seconds(1));
  run.ends[0]->hang_up();
  run.answer_all(run.ends[2]);
  for (int i = 0; i < 4; ++i) {
    run.pass(milliseconds(1000));
    run.ends[2]->say(wire::TransfersWait{});
  }
  EXPECT_EQ(run.evicted(2), "");
  run.answer_all();
  EXPECT_EQ(run.members(), 3U);
}

TEST(CoordinatorProgress, AMemberThatStoodStillMayAnswerLate) {
  Meeting run(4);
  run.pass(seconds(1));
  run.ends[0]->hang_up();
  run.coordinator.run();
  run.answer_all(run.ends[1]);
  run.pass(milliseconds(2600), {run.ends[0], run.ends[1]});
  run.pass(milliseconds(600), {run.ends[0]});
  EXPECT_EQ(run.evicted(1), "");
  run.answer_all();
  EXPECT_EQ(run.members(), 3U);
}

}  // namespace
}  // namespace lockstep::coordinator
