// A member that stops more rounds than any program does is taken out of the run. The test plays the member.
#include "core/coordinator/stop_allowance.h"

#include <gtest/gtest.h>

#include <string>

#include "fuzz/hosts.h"

namespace lockstep::coordinator {
namespace {

constexpr Instant kFullAllowance = Instant{} + seconds(1000);

bool use_up(StopAllowance& stops, std::uint32_t times, Instant now) {
  bool allowed = true;
  for (std::uint32_t i = 0; i < times; ++i) allowed = stops.use(now, {});
  return allowed;
}

// All calls that can wait are aborted at once, and those that were launched in their place.
TEST(StopAllowance, CoversTwoFullQueues) {
  StopAllowance stops;
  EXPECT_TRUE(use_up(stops, 2 * kMaxQueuedCalls, kFullAllowance));
  EXPECT_FALSE(stops.use(kFullAllowance, {}));
}

TEST(StopAllowance, GrowsBackWithTime) {
  StopAllowance stops;
  EXPECT_TRUE(use_up(stops, kMaxStopsAtOnce, kFullAllowance));
  EXPECT_TRUE(use_up(stops, kStopsPerSecond, kFullAllowance + seconds(1)));
  EXPECT_FALSE(stops.use(kFullAllowance + seconds(1), {}));
  StopAllowance rested;
  EXPECT_TRUE(use_up(rested, kMaxStopsAtOnce, kFullAllowance));
  EXPECT_TRUE(use_up(rested, kMaxStopsAtOnce, kFullAllowance + seconds(3600)));
}

TEST(StopAllowance, LastsForEverAtAModeratePace) {
  StopAllowance stops;
  for (std::int64_t i = 0; i < 1'000'000; ++i) ASSERT_TRUE(stops.use(kFullAllowance + milliseconds(25) * i, {}));
}

struct LoneMember {
  LoneMember() {
    member = &coordinator.streams.accept(fuzz::address_of(1));
    wire::Join join;
    join.peer = {1, 1};
    join.founders = 1;
    join.advertised = fuzz::address_of(1);
    join.name = "member";
    member->greet();
    member->say(join);
    settle();
  }
  // Answers each proposal.
  void settle() {
    coordinator.run();
    for (const auto* next = member->last<wire::Propose>(); next != nullptr && answered < next->number;
         next = member->last<wire::Propose>()) {
      view = next->view;
      answered = next->number;
      member->say(wire::Flush{answered, {}});
      coordinator.run();
    }
  }
  void stop(std::uint32_t times) {
    for (std::uint32_t i = 0; i < times; ++i) {
      const RoundKey key{view.cohort, GroupId{}, Tag{++stopped}, 0};
      member->say(wire::StopRound{key, attempt, Status::kAborted, false, "because"});
      if (stopped % kRoundWindow == 0) settle();
    }
    settle();
  }

  fuzz::CoordinatorHost coordinator{CoordinatorOptions{}};
  fuzz::FarEnd* member = nullptr;
  wire::View view;
  ProposalNumber answered;
  Generation attempt{1};
  std::uint64_t stopped = 0;
};

// Rule 67.
TEST(AMemberThatStopsRounds, StaysInTheRunUntilNoProgramStopsSoMany) {
  LoneMember alone;
  ASSERT_EQ(alone.member->count<wire::Install>(), 1U);
  alone.attempt = {alone.view.number.value};
  alone.stop(kMaxStopsAtOnce);
  EXPECT_EQ(alone.coordinator.status().aborts, kMaxStopsAtOnce);
  EXPECT_EQ(alone.member->last<wire::Evicted>(), nullptr);
  alone.stop(1);
  ASSERT_NE(alone.member->last<wire::Evicted>(), nullptr);
  EXPECT_EQ(alone.member->last<wire::Evicted>()->status, Status::kProtocolError);
  EXPECT_EQ(alone.member->last<wire::Evicted>()->text, "stopped more than 131072 rounds, and 40 more in each second");
}

// A StopRound that changes nothing costs nothing.
TEST(AMemberThatStopsRounds, MayStopARoundOfAnOldAttemptAnyNumberOfTimes) {
  LoneMember alone;
  alone.attempt = {alone.view.number.value + 1};
  alone.stop(kMaxStopsAtOnce + 1);
  EXPECT_EQ(alone.member->last<wire::Evicted>(), nullptr);
}

}  // namespace
}  // namespace lockstep::coordinator
