// Rules 23, 36 and 51 of docs/protocol.md at the coordinator: members whose streams bring nearly nothing, links to
// avoid, and whom a broken link costs the run.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fuzz/hosts.h"

namespace lockstep::coordinator {
namespace {

using fuzz::address_of;
using fuzz::FarEnd;

struct Meeting {
  explicit Meeting(std::uint32_t n) : coordinator(Options{}) {
    for (std::uint32_t i = 0; i < n; ++i) {
      wire::Join join;
      join.peer = id(i);
      join.founders = n;
      join.advertised = address_of(1);
      join.name = "p" + std::to_string(i);
      join.round_trip = milliseconds(1);
      ends.push_back(&coordinator.streams.accept(address_of(1)));
      answered.push_back({});
      ends.back()->greet();
      ends.back()->say(join);
      coordinator.run();
    }
    answer_all();
  }
  static PeerId id(std::uint32_t i) { return {i + 1, i + 1}; }
  void answer_all(const FarEnd* but = nullptr) {
    coordinator.run();
    for (bool any = true; any;) {
      any = false;
      for (std::size_t i = 0; i < ends.size(); ++i) {
        const auto* propose = ends[i]->last<wire::Propose>();
        if (ends[i] == but || propose == nullptr || propose->number == answered[i] || ends[i]->shown_out()) continue;
        answered[i] = propose->number;
        ends[i]->say(wire::Flush{propose->number, {}});
        any = true;
      }
      coordinator.run();
    }
  }
  void pass(Duration time, const std::vector<FarEnd*>& but = {}) {
    for (Duration passed; passed < time; passed = passed + milliseconds(50)) {
      for (FarEnd* end : ends) {
        if (std::find(but.begin(), but.end(), end) == but.end() && !end->shown_out()) end->say(wire::Heartbeat{});
      }
      coordinator.run();
      coordinator.pass(milliseconds(50));
      coordinator.run();
    }
  }
  [[nodiscard]] std::size_t members() const { return coordinator.status().view.members.size(); }
  [[nodiscard]] std::uint64_t view() const { return coordinator.status().view.number.value; }
  // The text of its eviction; empty: it is in.
  [[nodiscard]] std::string evicted(std::uint32_t i) const {
    const auto* evicted = ends[i]->last<wire::Evicted>();
    return evicted == nullptr ? "" : evicted->text;
  }

  fuzz::CoordinatorHost coordinator;
  std::vector<FarEnd*> ends;
  std::vector<ProposalNumber> answered;
};

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
    run.pass(milliseconds(900));
    run.ends[0]->say(wire::LinkBroken{Meeting::id(1), "no stream", true});
    run.answer_all();
    EXPECT_EQ(run.members(), 4U);  // soon after the ring was laid
    run.pass(milliseconds(2100));
    run.ends[0]->say(wire::LinkBroken{Meeting::id(1), "no stream", true});
    run.answer_all();
    EXPECT_EQ(run.members(), broken ? 3U : 4U);
    EXPECT_EQ(run.evicted(1).find("a direct call still needs that link") != std::string::npos, broken);
  }
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

TEST(CoordinatorProgress, NoRingIsLaidAroundAMemberThatStandsStill) {
  Meeting run(4);
  run.pass(seconds(1));
  run.pass(milliseconds(1200), {run.ends[1]});
  run.ends[0]->say(wire::LinkBroken{Meeting::id(1), "no stream", true});
  run.answer_all();
  EXPECT_EQ(run.view(), 1U);
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

TEST(CoordinatorProgress, OneBrokenLinkOfThreeCostsAMemberInAMoment) {
  Meeting run(3);
  run.pass(seconds(1));
  run.ends[0]->say(wire::LinkBroken{Meeting::id(1), "nearly dead"});
  run.coordinator.run();
  run.answer_all();
  EXPECT_EQ(run.members(), 3U);
  run.pass(milliseconds(300));
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

// It stands still, and answers as soon as it goes on.
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
