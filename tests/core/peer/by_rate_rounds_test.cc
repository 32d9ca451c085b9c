// Ranks tell each other what their lines carry, and own by that (rule 58).
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tests/core/peer/direct_round.h"

namespace lockstep::peer {
namespace {

PeerOptions by_rate() {
  PeerOptions by_rate = options();
  by_rate.direct.by_rate_bytes = kChunkBytes;
  return by_rate;
}

// The rate of this peer's own line is not known: it counts as the slowest.
struct ByRate : DirectRound {
  explicit ByRate(const PeerOptions& options = by_rate()) : DirectRound(options) {}

  // `parameter`: a rate, or a LineReport.
  void tell(FarEnd& from, std::uint64_t parameter, const wire::Descriptor& what = arguments()) {
    wire::Ready ready = DirectRound::ready();
    ready.what = what;
    ready.has_parameter = true;
    ready.parameter = parameter;
    from.say(ready);
    me.run();
  }
  void send_contribution(FarEnd& from, std::byte filling, std::uint32_t piece = 1) {
    from.say_segment(segment(Phase::kReduceScatter, piece), filling, checksum_of_all(filling));
    me.run();
  }
  void expect_all_is_over(CallId call, Status status) {
    ASSERT_NE(me.outcome(call), nullptr);
    EXPECT_EQ(me.outcome(call)->status, status) << me.outcome(call)->text;
    expect_alive();
    for (const FarEnd* end : {low, high}) EXPECT_FALSE(end->shown_out());
  }
};

TEST(ByRateRounds, ReadyTellsTheRateAndThatThereIsMemory) {
  ByRate run;
  run.call();
  for (const FarEnd* end : {run.low, run.high}) {
    const auto* const ready = end->last<wire::Ready>();
    ASSERT_NE(ready, nullptr);
    EXPECT_TRUE(ready->landing);
    EXPECT_TRUE(ready->has_parameter);
    EXPECT_EQ(ready->parameter, 0U) << "not known";
  }
}

TEST(ByRateRounds, AreThoseOfManyBytesForEachRank) {
  for (const std::uint64_t less : {0U, 1U}) {
    ByRate run;
    run.call(7, false, kThreeChunks - less);
    const auto* const ready = run.low->last<wire::Ready>();
    ASSERT_NE(ready, nullptr);
    EXPECT_EQ(ready->has_parameter, less == 0) << less;
  }
}

TEST(ByRateRounds, NothingGoesBeforeTheRatesOfAllAreKnown) {
  ByRate run;
  run.call();
  run.tell(*run.low, 100);
  EXPECT_FALSE(run.low->last_segment());
  run.tell(*run.high, 100);
  DirectRound::expect_sent(*run.low, Phase::kReduceScatter, 0, run.own(0));
  DirectRound::expect_sent(*run.high, Phase::kReduceScatter, 2, run.own(2));
}

TEST(ByRateRounds, TheRankWithTheFastestLineOwnsAll) {
  ByRate run;
  const CallId call = run.call();
  run.tell(*run.low, 1000);
  run.tell(*run.high, 100);
  EXPECT_FALSE(run.high->last_segment());
  DirectRound::expect_sent(*run.low, Phase::kReduceScatter, 2, run.own(2));
  for (const std::uint32_t piece : {0U, 1U, 2U})
    run.low->say_segment(DirectRound::segment(Phase::kAllGather, piece), std::byte{1}, checksum_of_all(std::byte{1}));
  run.me.run();
  run.commit();
  ASSERT_NE(run.me.outcome(call), nullptr);
  EXPECT_EQ(run.me.outcome(call)->status, Status::kOk);
  EXPECT_EQ(run.me.outcome(call)->way.rates, (std::vector<ring::Rate>{1000, 0, 100}));
}

TEST(ByRateRounds, RatesThatCameBeforeTheCallCount) {
  ByRate run;
  run.tell(*run.high, 100);
  run.tell(*run.low, 100);
  run.call();
  DirectRound::expect_sent(*run.low, Phase::kReduceScatter, 0, run.own(0));
}

// Of either neighbour, before the rate of the other has come.
TEST(ByRateRounds, AContributionBeforeTheLastRateWaitsForItsPlace) {
  for (const bool of_low : {true, false}) {
    ByRate run;
    FarEnd& early = of_low ? *run.low : *run.high;
    FarEnd& late = of_low ? *run.high : *run.low;
    const CallId call = run.call();
    run.tell(early, 100);
    run.send_contribution(early, of_low ? kOfLow : kOfHigh);
    EXPECT_FALSE(early.shown_out());
    run.tell(late, 100);
    run.send_contribution(late, of_low ? kOfHigh : kOfLow);
    run.expect_final_sent();
    run.finals_come();
    run.commit();
    run.expect_all_is_over(call, Status::kOk);
  }
}

TEST(ByRateRounds, AContributionThatWaitsEndsWithItsAttempt) {
  ByRate run;
  const CallId call = run.call();
  run.tell(*run.low, 100);
  run.send_contribution(*run.low, kOfLow);
  run.stopped({7});
  run.expect_all_is_over(call, Status::kAborted);
  run.low->say(wire::Heartbeat{});  // behind the contribution, on the same stream
  run.me.run();
  EXPECT_FALSE(run.low->shown_out());
}

TEST(ByRateRounds, AContributionThatWaitsIsBegunAnewWithTheNextAttempt) {
  ByRate run;
  const CallId call = run.call();
  run.tell(*run.low, 100);
  run.send_contribution(*run.low, kOfLow);
  run.install(run.loss_of(kHigh));
  EXPECT_EQ(run.me.outcome(call), nullptr);
  EXPECT_FALSE(run.low->shown_out());
}

TEST(ByRateRounds, AReportThatIsNoneStopsTheRound) {
  ByRate run;
  run.call();
  run.tell(*run.low, ring::LineReport{UINT32_MAX, true}.parameter() + 1);
  const auto* const stop = run.coordinator->last<wire::StopRound>();
  ASSERT_NE(stop, nullptr);
  EXPECT_EQ(stop->status, Status::kProtocolError);
  EXPECT_NE(stop->text.find("states a line for rank 0 that is none: the bits 8589934592"), std::string::npos)
      << stop->text;
}

// Of either neighbour.
TEST(ByRateRounds, ALineThatLosesPacketsMakesAllSegmentsSmaller) {
  constexpr std::uint64_t kBytes = std::uint64_t{3} * 8 * 65'536;
  for (const bool low_loses : {false, true}) {
    for (const bool high_loses : {false, true}) {
      PeerOptions options = by_rate();
      options.segment_bytes = 0;
      ByRate run(options);
      run.call(7, false, kBytes);
      const wire::Descriptor what = DirectRound::arguments(kBytes, 0);
      run.tell(*run.low, ring::LineReport{100, low_loses}.parameter(), what);
      run.tell(*run.high, ring::LineReport{100, high_loses}.parameter(), what);
      for (const FarEnd* end : {run.low, run.high}) {
        ASSERT_TRUE(end->last_segment());
        EXPECT_EQ(end->last_segment()->payload.size(), low_loses || high_loses ? 16'384U : 65'536U);
      }
    }
  }
}

TEST(ByRateRounds, ANewStreamIsToldTheRateBeforeTheLastOneHasCome) {
  ByRate run;
  run.call();
  run.tell(*run.high, 100);
  run.low_comes_again();
  const auto* const ready = run.low->last<wire::Ready>();
  ASSERT_NE(ready, nullptr);
  EXPECT_TRUE(ready->landing && ready->has_parameter);
  run.tell(*run.low, 100);
  DirectRound::expect_sent(*run.low, Phase::kReduceScatter, 0, run.own(0));
}

}  // namespace
}  // namespace lockstep::peer
