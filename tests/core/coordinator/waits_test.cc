// Rule 54 of docs/protocol.md at the coordinator: members that wait, who is asked, and what the status says.
#include <gtest/gtest.h>

#include <string>

#include "core/wire/limits.h"
#include "tests/core/coordinator/meeting.h"

namespace lockstep::coordinator {
namespace {

using wire::CallStage;

class Waiting : public testing::Test {
 protected:
  Waiting() { run.pass(seconds(5)); }

  static RoundKey key(std::uint64_t tag = 7) { return {CohortId{1}, {}, Tag{tag}, 0}; }
  wire::CallWaits waits(CallStage stage, std::string busy = {}) const {
    return {key(),
            attempt(),
            wire::Collective::kAllReduce,
            stage,
            stage == CallStage::kCalled ? seconds(3) : Duration{},
            std::move(busy)};
  }
  [[nodiscard]] Generation attempt() const { return Generation{run.view()}; }
  void says(std::uint32_t member, const wire::Message& message) {
    run.ends[member]->say(message);
    run.coordinator.run();
  }
  [[nodiscard]] std::string told(std::uint32_t member) const {
    const auto* awaited = run.ends[member]->last<wire::CallAwaited>();
    return awaited == nullptr ? "nothing" : awaited->text;
  }

  Meeting run{3};
};

TEST_F(Waiting, AMemberThatHasNotCalledIsNamedWithWhatItDoes) {
  for (std::uint32_t late = 0; late < 3; ++late) {
    run.pass(seconds(1));
    const std::uint32_t first = (late + 1) % 3;
    const std::uint32_t second = (late + 2) % 3;
    const auto tag = std::uint64_t{7} + late;
    auto came = waits(CallStage::kCalled);
    auto busy = waits(CallStage::kToCome, "in no call");
    came.key = busy.key = key(tag);
    says(first, came);
    EXPECT_EQ(told(late), "") << "a question";
    says(second, came);
    says(late, busy);
    const std::string name = "p" + std::to_string(late);
    std::string text = "all_reduce with tag ";
    text.append(std::to_string(tag)).append(" has waited 3.0 s for ").append(name).append(" (in no call); p");
    text.append(std::to_string(std::min(first, second))).append(" and p");
    text.append(std::to_string(std::max(first, second))).append(" have called it");
    for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(told(i), text);
  }
  const auto status = run.coordinator.status().waits;
  ASSERT_EQ(status.size(), 3U);
  EXPECT_GE(status[0].age, status[2].age);
  EXPECT_EQ(status[0].call, "all_reduce");
  EXPECT_EQ(status[0].key, key(7));
  EXPECT_EQ(status[0].come, (std::vector<PeerId>{Meeting::id(1), Meeting::id(2)}));
  EXPECT_EQ(status[0].missing, (std::vector<PeerId>{Meeting::id(0)}));
}

TEST_F(Waiting, NobodyIsNamedWhenAllHaveCalled) {
  for (std::uint32_t i = 0; i < 3; ++i) says(i, waits(CallStage::kCalled));
  run.pass(seconds(5));
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(told(i), "");
  ASSERT_EQ(run.coordinator.status().waits.size(), 1U);
  EXPECT_NE(run.coordinator.status().waits[0].text.find("all 3 members have called it"), std::string::npos);
}

TEST_F(Waiting, AMemberThatDoesNotAnswerIsNamedAfterASilence) {
  says(0, waits(CallStage::kCalled));
  says(1, waits(CallStage::kCalled));
  run.pass(seconds(2));
  EXPECT_EQ(told(0), "");
  run.pass(seconds(2));
  EXPECT_NE(told(0).find(" for p2 (no answer); p0 and p1 have called it"), std::string::npos) << told(0);
}

TEST_F(Waiting, ALateComerIsTakenOffTheListAndTheNextIsTold) {
  says(0, waits(CallStage::kCalled));
  says(1, waits(CallStage::kToCome, "in admit"));
  says(2, waits(CallStage::kToCome, "in no call"));
  EXPECT_NE(told(0).find(" for p1 (in admit) and p2 (in no call); p0 has called it"), std::string::npos) << told(0);
  says(1, waits(CallStage::kCalled));
  run.pass(seconds(1));
  says(2, waits(CallStage::kToCome, "in barrier with tag 9"));
  EXPECT_NE(told(0).find(" for p2 (in barrier with tag 9); p0 and p1 have called it"), std::string::npos) << told(0);
}

TEST_F(Waiting, IsToldAgainEachMinute) {
  says(0, waits(CallStage::kCalled));
  for (std::uint32_t i = 1; i < 3; ++i) says(i, waits(CallStage::kToCome, "in no call"));
  const auto before = run.ends[0]->count<wire::CallAwaited>();
  run.pass(seconds(60) - milliseconds(50));
  EXPECT_EQ(run.ends[0]->count<wire::CallAwaited>(), before);
  run.pass(milliseconds(100));
  EXPECT_EQ(run.ends[0]->count<wire::CallAwaited>(), before + 1) << "the question";
  for (std::uint32_t i = 1; i < 3; ++i) says(i, waits(CallStage::kToCome, "in no call"));
  EXPECT_NE(told(0).find("has waited 63."), std::string::npos) << told(0);
}

TEST_F(Waiting, ARoundThatIsOverIsForgotten) {
  says(0, waits(CallStage::kCalled));
  says(1, waits(CallStage::kOver));
  EXPECT_TRUE(run.coordinator.status().waits.empty());
  says(0, waits(CallStage::kCalled));
  wire::Done done{key(), attempt(), {}, 5, 0};
  done.what.collective = wire::Collective::kAllReduce;
  for (std::uint32_t i = 0; i < 3; ++i) says(i, done);
  EXPECT_EQ(run.coordinator.status().commits, 1U);
  EXPECT_TRUE(run.coordinator.status().waits.empty());
}

TEST_F(Waiting, AnAttemptThatIsGivenUpIsForgotten) {
  says(0, waits(CallStage::kCalled));
  run.pass(seconds(4), {run.ends[2]});
  run.answer_all(run.ends[2]);
  EXPECT_EQ(run.members(), 2U);
  EXPECT_TRUE(run.coordinator.status().waits.empty());
}

TEST_F(Waiting, ThoseThatHaveNotCalledAdmitAreNamed) {
  for (std::uint32_t late = 0; late < 3; ++late) {
    Meeting each(3);
    for (std::uint32_t i = 0; i < 3; ++i) {
      if (i != late) each.ends[i]->say(wire::Admit{CohortId{1}, 1, false, {}});
    }
    each.coordinator.run();
    EXPECT_TRUE(each.coordinator.status().waits.empty());
    each.pass(milliseconds(2950));
    EXPECT_EQ(each.ends[late]->last<wire::CallAwaited>(), nullptr) << "after six heartbeats";
    each.pass(milliseconds(100));
    const auto* awaited = each.ends[late]->last<wire::CallAwaited>();
    ASSERT_NE(awaited, nullptr);
    EXPECT_EQ(awaited->missing, 1U);
    EXPECT_EQ(awaited->text.find("admit has waited 3."), 0U) << awaited->text;
    EXPECT_NE(awaited->text.find(" s for p" + std::to_string(late) + "; "), std::string::npos) << awaited->text;
    ASSERT_EQ(each.coordinator.status().waits.size(), 1U);
    EXPECT_EQ(each.coordinator.status().waits[0].missing, (std::vector<PeerId>{Meeting::id(late)}));
    each.pass(milliseconds(59'850));
    EXPECT_EQ(each.ends[late]->count<wire::CallAwaited>(), 1U);
    each.pass(milliseconds(150));
    EXPECT_EQ(each.ends[late]->count<wire::CallAwaited>(), 2U) << "each minute";
  }
}

TEST_F(Waiting, TransfersAreListedUntilTheirPeerSaysOtherwise) {
  says(1, wire::TransfersWait{{{Meeting::id(2), Tag{5}, true, seconds(3)}, {PeerId{}, Tag{6}, true, seconds(4)}}});
  const auto status = run.coordinator.status().waits;
  ASSERT_EQ(status.size(), 2U);
  EXPECT_EQ(status[0].text, "p1: recv from any member with tag 6 has waited 4.0 s");
  EXPECT_EQ(status[1].text, "p1: recv from p2 with tag 5 has waited 3.0 s");
  says(1, wire::TransfersWait{});
  EXPECT_TRUE(run.coordinator.status().waits.empty());
  says(2, wire::TransfersWait{{{Meeting::id(1), Tag{5}, false, seconds(3)}}});
  run.pass(seconds(4), {run.ends[2]});
  EXPECT_TRUE(run.coordinator.status().waits.empty()) << "the peer is lost";
}

TEST_F(Waiting, LiesAreBounded) {
  auto stranger = waits(CallStage::kCalled);
  stranger.key.cohort = CohortId{9};
  says(0, stranger);
  auto late = waits(CallStage::kCalled);
  late.attempt = Generation{0};
  says(0, late);
  EXPECT_EQ(run.coordinator.footprint().waits, 0U) << "these rounds do not exist, or do no more";
  for (std::uint64_t tag = 0; tag < kMaxAwaitedRounds + 10; ++tag) {
    auto one = waits(CallStage::kCalled);
    one.key = key(tag);
    one.age = seconds(1'000'000);
    says(1, one);
  }
  EXPECT_EQ(run.coordinator.footprint().waits, kMaxAwaitedRounds);
  for (const auto& wait : run.coordinator.status().waits) EXPECT_LE(wait.age, seconds(60));
  EXPECT_EQ(run.members(), 3U);
}

}  // namespace
}  // namespace lockstep::coordinator
