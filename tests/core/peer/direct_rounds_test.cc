// An all-reduce in a meshed group goes direct (rule 57). Its small contributions go before their receivers have
// launched the round, and are kept there until the launch (rule 10).
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/kernels/checksum.h"
#include "core/wire/limits.h"
#include "tests/core/peer/direct_round.h"

namespace lockstep::peer {
namespace {

using wire::Phase;

// ---- the choice ----

// A Ready goes upstream in a ring, and to all members otherwise.
TEST(AlgorithmOfARound, FollowsFromTheView) {
  const struct {
    Duration round_trip;
    bool meshed = false;
    std::optional<wire::Algorithm> asked;
    bool direct = false;
  } cases[] = {
      {kFar, true, {}, true},
      {kFar, false, {}, false},
      {kFarCoordinator, true, {}, true},
      {kFarCoordinator - nanoseconds(1), true, {}, false},
      {kFar, true, wire::Algorithm::kRing, false},
      {kFarCoordinator - nanoseconds(1), true, wire::Algorithm::kDirect, true},
      {kFar, false, wire::Algorithm::kDirect, true},
  };
  for (const auto& [round_trip, meshed, asked, direct] : cases) {
    SCOPED_TRACE(testing::Message() << round_trip.ns << " ns" << (meshed ? "" : ", not meshed") << ", asked "
                                    << (asked ? name_of(*asked) : "auto"));
    DirectRound run(options(), round_trip, meshed);
    Request request;
    request.collective = wire::Collective::kAllReduce;
    request.type = DataType::kU8;
    request.tag = Tag{7};
    request.algorithm = asked;
    run.me.launch(request, kThreeChunks);
    run.me.run();
    ASSERT_NE(run.low->last<wire::Ready>(), nullptr);
    EXPECT_EQ(run.low->last<wire::Ready>()->what.algorithm, asked.value_or(wire::Algorithm::kAuto));
    EXPECT_EQ(run.high->count<wire::Ready>(), direct ? 1U : 0U);
  }
}

TEST(AlgorithmOfARound, IsChosenAgainForEachAttempt) {
  DirectRound run;
  const CallId call = run.call(7, true);
  EXPECT_EQ(run.high->count<wire::Ready>(), 1U);
  wire::Propose relaid = run.proposal(view_of(2, 1, {kLow, kMe, kHigh}));
  relaid.view.unmeshed = {GroupId{}};
  relaid.relinked = {GroupId{}};
  run.install(relaid);
  ASSERT_NE(run.low->last<wire::Ready>(), nullptr);
  EXPECT_EQ(run.low->last<wire::Ready>()->attempt, Generation{2});
  EXPECT_EQ(run.high->count<wire::Ready>(), 1U) << "around the ring";
  EXPECT_EQ(run.me.outcome(call), nullptr);
  EXPECT_TRUE(std::ranges::equal(run.me.sent(call), run.input));
  run.expect_alive();
}

// The peer dials the members that have greater numbers.
TEST(AlgorithmOfARound, MembersOfAMeshedGroupKeepLinksToAllOthers) {
  for (const bool meshed : {false, true}) {
    Peer3 run(options(), {kLow, kMe, kHigh, {11, 11}, {12, 12}, {13, 13}}, true, kFar, meshed);
    for (const std::uint64_t across : {11U, 12U}) {
      EXPECT_EQ(run.welcome({across, across}) != nullptr, meshed);
    }
  }
}

TEST(AlgorithmOfARound, ReceiptsNameIt) {
  for (const bool meshed : {true, false}) {
    DirectRound run(options(), kFar, meshed);
    Request request;
    request.collective = wire::Collective::kAllReduce;
    request.type = DataType::kU8;
    request.tag = Tag{7};
    const CallId empty = run.me.launch(request, 0);
    run.me.run();
    run.commit();
    ASSERT_NE(run.me.outcome(empty), nullptr);
    EXPECT_EQ(run.me.outcome(empty)->way.algorithm, meshed ? wire::Algorithm::kDirect : wire::Algorithm::kRing);
  }
}

// ---- contributions of this peer ----

TEST(EagerContributions, GoToAllOwnersAtOnceWithAnOfferBefore) {
  DirectRound run;
  run.call();
  for (const auto& [end, piece] : {std::pair(run.low, 0U), std::pair(run.high, 2U)}) {
    EXPECT_EQ(end->segments_heard(), 1U);
    run.expect_sent(*end, Phase::kReduceScatter, piece, run.own(piece));
    ASSERT_EQ(end->count<wire::Offer>(), 1U);
    EXPECT_EQ(end->last<wire::Offer>()->what, DirectRound::arguments());
    EXPECT_TRUE(end->last<wire::Offer>()->follows);
    ASSERT_EQ(end->count<wire::Ready>(), 1U);
    EXPECT_TRUE(end->last<wire::Ready>()->landing);
    EXPECT_TRUE(end->last<wire::Ready>()->have.empty());
  }
}

TEST(EagerContributions, NeedNoOfferOnceTheReceiverHasLaunched) {
  PeerOptions none = options();
  none.eager_segments = 0;
  DirectRound run(none);
  run.call();
  for (const FarEnd* end : {run.low, run.high}) EXPECT_EQ(end->segments_heard(), 0U);
  run.high->say(DirectRound::ready());
  run.me.run();
  EXPECT_EQ(run.high->segments_heard(), 1U);
  EXPECT_EQ(run.high->count<wire::Offer>(), 0U);
  run.contribute(*run.low, kOfLow);  // no Ready: it contributes, so it has launched
  EXPECT_EQ(run.low->segments_heard(), 1U);
  EXPECT_EQ(run.low->count<wire::Offer>(), 0U);
}

TEST(EagerContributions, AreLimitedByTheCreditOfTheLink) {
  DirectRound run;
  for (std::uint64_t tag = 1; tag <= kMaxEagerSegments + 3; ++tag) run.call(tag);
  for (const FarEnd* end : {run.low, run.high}) {
    EXPECT_EQ(end->segments_heard(), kMaxEagerSegments);
    EXPECT_EQ(end->count<wire::Ready>(), kMaxEagerSegments + 3);
  }
  run.stopped({1, 2});  // their segments are no longer under way
  for (const std::uint64_t tag : {201U, 202U, 203U}) run.call(tag);
  EXPECT_EQ(run.high->segments_heard(), kMaxEagerSegments + 2);
}

// Of each owner: a round with three pieces for each takes three of the credit.
TEST(EagerContributions, GoTogetherOrNotAtAll) {
  PeerOptions few = options();
  few.eager_segments = 5;
  few.segment_bytes = kChunkBytes;
  for (const std::uint64_t pieces : {5U, 6U}) {
    DirectRound run(few);
    run.call(7, false, pieces * kThreeChunks);
    EXPECT_EQ(run.high->segments_heard(), pieces == 5 ? 5U : 0U);
    run.call(8);
    EXPECT_EQ(run.high->segments_heard(), pieces == 5 ? 5U : 1U) << "the credit is used up, or is free";
  }
}

TEST(EagerContributions, AreNotLargerThanASlot) {
  PeerOptions large = options();
  large.segment_bytes = 2 * kEarlySlotBytes;
  for (const std::uint64_t chunk : {kEarlySlotBytes, kEarlySlotBytes + 1}) {
    DirectRound run(large);
    run.call(7, false, 3 * chunk);
    EXPECT_EQ(run.high->segments_heard(), chunk == kEarlySlotBytes ? 1U : 0U);
  }
}

TEST(EagerContributions, AreSentAgainOnANewStreamUntilTheReceiverLaunches) {
  DirectRound run;
  run.call();
  for (int i = 0; i < 3; ++i) {
    run.high_comes_again();
    EXPECT_EQ(run.high->segments_heard(), 1U);
    EXPECT_EQ(run.high->count<wire::Offer>(), 1U);
    run.expect_sent(*run.high, Phase::kReduceScatter, 2, run.own(2));
    EXPECT_EQ(run.low->segments_heard(), 1U) << "that stream is not gone";
  }
  run.low_comes_again();
  EXPECT_EQ(run.low->segments_heard(), 1U);
  run.expect_sent(*run.low, Phase::kReduceScatter, 0, run.own(0));
}

TEST(EagerContributions, AreSentAgainOnRequestAfterTheReceiversLaunch) {
  for (const bool has : {false, true}) {
    SCOPED_TRACE(has);
    DirectRound run;
    run.call();
    run.high->say(DirectRound::ready());
    run.me.run();
    EXPECT_EQ(run.high->segments_heard(), 1U);
    run.high_comes_again();  // what went before its Ready goes again at once
    EXPECT_EQ(run.high->segments_heard(), 1U);
    run.high->say(DirectRound::ready(7, has ? std::vector<std::uint64_t>{1U << 2U} : std::vector<std::uint64_t>{}));
    run.me.run();
    EXPECT_EQ(run.high->segments_heard(), 1U);
  }
}

// The receiver is up with the new stream before the sender is, launches, and says Ready on its other stripe.
TEST(EagerContributions, LostOnAStripeAreSentAgainWhenTheReceiverLaunchesBeforeItsWelcomeComes) {
  PeerOptions two = options();
  two.stripes = 2;
  two.segment_bytes = kChunkBytes;
  DirectRound run(two);
  FarEnd* other = run.welcome(kHigh);  // the second stripe to high
  ASSERT_NE(other, nullptr);
  run.call(7, false, 6 * kThreeChunks);
  FarEnd* ends[2] = {run.high, other};
  ASSERT_GT(ends[0]->segments_heard(), 0U);
  ASSERT_GT(ends[1]->segments_heard(), 0U);
  const int lost = ends[0]->last<wire::Link>()->stripe.value == 1 ? 0 : 1;
  const auto gone = ends[lost]->segments_heard();
  const auto before = ends[1 - lost]->segments_heard();
  ends[lost]->hang_up();
  run.me.run();
  run.me.pass(milliseconds(20));
  run.me.run();
  FarEnd* fresh = nullptr;
  for (FarEnd* end : run.me.streams.dialling()) {
    if (end->dialled() == address_of(9)) fresh = end;
  }
  ASSERT_NE(fresh, nullptr);
  run.me.streams.open(*fresh);
  fresh->greet();
  run.me.run();
  // high has heard Link, has answered with LinkWelcome (under way), and launches: it says Ready on its first stripe
  wire::Ready ready = DirectRound::ready();
  ready.what = ends[1 - lost]->last<wire::Ready>() != nullptr ? ends[1 - lost]->last<wire::Ready>()->what
                                                              : run.low->last<wire::Ready>()->what;
  ends[1 - lost]->say(ready);
  run.me.run();
  fresh->say(wire::LinkWelcome{});
  run.me.run();
  EXPECT_EQ(fresh->segments_heard() + ends[1 - lost]->segments_heard() - before, gone)
      << "those that were lost are sent again";
}

// Rule 35.
TEST(EagerContributions, AreNotSentAgainIfTheyHaveChanged) {
  DirectRound run;
  const CallId call = run.call();
  run.me.rewrite(call);
  run.high_comes_again();
  EXPECT_EQ(run.high->segments_heard(), 0U);
  const auto* const stop = run.coordinator->last<wire::StopRound>();
  ASSERT_NE(stop, nullptr);
  EXPECT_NE(stop->text.find("a buffer of the call changed during the call"), std::string::npos) << stop->text;
}

// ---- contributions of others ----

TEST(EarlyContributions, AreUsedAtTheLaunch) {
  for (const bool in_place : {false, true}) {
    SCOPED_TRACE(in_place);
    DirectRound run;
    run.both_contribute();
    EXPECT_EQ(run.me.footprint().remembered, 2U);
    const CallId call = run.call(7, in_place);
    run.expect_final_sent();
    EXPECT_EQ(run.me.footprint().remembered, 0U) << "the slots are free";
    EXPECT_TRUE(std::ranges::equal(run.me.sent(call), run.input));
    run.finals_come();
    EXPECT_TRUE(std::ranges::equal(run.me.sent(call), run.input) || !in_place) << "until the commit";
    run.commit();
    ASSERT_NE(run.me.outcome(call), nullptr);
    EXPECT_EQ(run.me.outcome(call)->status, Status::kOk) << run.me.outcome(call)->text;
    EXPECT_EQ(run.me.outcome(call)->way.algorithm, wire::Algorithm::kDirect);
    EXPECT_EQ(run.me.outcome(call)->bytes_sent, 4U * kChunkBytes);
    EXPECT_EQ(run.me.outcome(call)->bytes_received, 4U * kChunkBytes);
    std::vector<std::byte> result(kThreeChunks, std::byte{1});
    std::ranges::copy(run.sum(), result.begin() + kChunkBytes);
    EXPECT_TRUE(std::ranges::equal(run.me.received(call), result));
    EXPECT_FALSE(run.low->shown_out());
    EXPECT_FALSE(run.high->shown_out());
  }
}

TEST(EarlyContributions, OfOneNeighbourWaitForTheOther) {
  DirectRound run;
  run.contribute(*run.high, kOfHigh);
  run.call();
  EXPECT_EQ(run.high->segments_heard(), 1U) << "our contribution only";
  run.contribute(*run.low, kOfLow);
  run.expect_final_sent();
}

TEST(EarlyContributions, OnTheirWayAtTheLaunchAreUsedOnArrival) {
  std::vector<std::byte> frame;
  wire::encode(wire::Message(DirectRound::segment(Phase::kReduceScatter, 1)), Term{1}, frame);
  frame.insert(frame.end(), kChunkBytes, kOfLow);
  frame.resize(frame.size() + wire::kTrailerBytes);
  wire::encode(wire::Trailer{checksum_of_all(kOfLow), false}, std::span(frame).last<wire::kTrailerBytes>());
  for (std::size_t cut = 0; cut <= frame.size(); ++cut) {
    SCOPED_TRACE(cut);
    DirectRound run;
    run.contribute(*run.high, kOfHigh);
    run.low->say(DirectRound::offer());
    run.low->say_bytes(std::span(frame).first(cut));
    run.me.run();
    run.call(7, cut % 2 == 0);
    run.low->say_bytes(std::span(frame).subspan(cut));
    run.me.run();
    run.expect_final_sent();
    EXPECT_FALSE(run.low->shown_out());
    run.stopped({7});
    EXPECT_EQ(run.me.footprint().remembered, 0U);
  }
}

TEST(EarlyContributions, ThatAreLostAreAcceptedWhenTheyAreRepeated) {
  DirectRound run;
  run.both_contribute();
  run.low_comes_again();
  run.contribute(*run.low, kOfLow);  // `low` does not know whether the first copy has come
  run.call();
  run.expect_final_sent();
  EXPECT_EQ(run.low->last<wire::Ready>()->have, std::vector<std::uint64_t>{1U << 1U}) << "it is here";
}

TEST(EarlyContributions, ThatAreCorruptEndTheirStreamAndAreAcceptedWhenRepeated) {
  for (const bool in_place : {false, true}) {
    DirectRound run;
    run.contribute(*run.high, kOfHigh);
    run.low->say(DirectRound::offer());
    run.low->say_segment(DirectRound::segment(Phase::kReduceScatter, 1), kOfLow, checksum_of_all(kOfLow) + 1);
    run.me.run();
    EXPECT_FALSE(run.low->shown_out());
    run.call(7, in_place);
    EXPECT_TRUE(run.low->shown_out());
    EXPECT_TRUE(run.has_heard_of("checksum is wrong"));
    run.low = &run.dial_in(kLow);
    ASSERT_NE(run.low->last<wire::Ready>(), nullptr);
    EXPECT_TRUE(run.low->last<wire::Ready>()->have.empty());
    run.contribute(*run.low, kOfLow);
    run.expect_final_sent();
    run.stopped({7});
    EXPECT_EQ(run.me.footprint().remembered, 0U);
    run.expect_alive();
  }
}

// Of each neighbour, not only of the one upstream.
TEST(EarlyContributions, WithOtherArgumentsStopTheRound) {
  for (const bool of_low : {false, true}) {
    for (const bool launched_before : {false, true}) {
      SCOPED_TRACE(testing::Message() << of_low << launched_before);
      DirectRound run;
      if (launched_before) run.call();
      FarEnd& end = of_low ? *run.low : *run.high;
      wire::Offer offer = DirectRound::offer();
      offer.what.op = ReduceOp::kMax;
      end.say(offer);
      end.say_segment(DirectRound::segment(Phase::kReduceScatter, 1), kOfLow, checksum_of_all(kOfLow));
      run.me.run();
      if (!launched_before) run.call();
      const auto* stop = run.coordinator->last<wire::StopRound>();
      ASSERT_NE(stop, nullptr);
      EXPECT_EQ(stop->status, Status::kMismatch);
      EXPECT_EQ(stop->other, of_low ? kLow : kHigh);
      EXPECT_FALSE(end.shown_out());
      run.stopped({7});
      EXPECT_TRUE(run.me.all_calls_over());
      EXPECT_EQ(run.me.footprint().remembered, 0U);
      run.expect_alive();
    }
  }
}

// A member that asks for the ring does not fit one that leaves the choice, whatever the view chooses.
TEST(EarlyContributions, OfACallWithAnotherAlgorithmStopTheRound) {
  DirectRound run;
  wire::Offer offer = DirectRound::offer();
  offer.what.algorithm = wire::Algorithm::kRing;
  run.low->say(offer);
  run.me.run();
  run.call();
  const auto* stop = run.coordinator->last<wire::StopRound>();
  ASSERT_NE(stop, nullptr);
  EXPECT_EQ(stop->status, Status::kMismatch);
  EXPECT_NE(stop->text.find("algorithm"), std::string::npos) << stop->text;
}

TEST(EarlyContributions, ThatNoRoundExpectsEndTheirStream) {
  const auto with = [](auto change) {
    wire::Segment segment = DirectRound::segment(Phase::kReduceScatter, 1);
    change(segment);
    return segment;
  };
  const wire::Segment lies[] = {
      with([](auto& s) { s.index.value = 0; }),
      with([](auto& s) { s.index.value = 3; }),
      with([](auto& s) { s.length = 0; }),
      with([](auto& s) { s.length = kChunkBytes - 1; }),
      with([](auto& s) { s.length = kChunkBytes + 1; }),
  };
  for (const wire::Segment& lie : lies) {
    SCOPED_TRACE(testing::Message() << lie.index.value << ", " << lie.length << " bytes");
    DirectRound run;
    run.contribute(*run.high, kOfHigh);
    run.low->say(DirectRound::offer());
    run.low->say_segment(lie, kOfLow, checksum_of_all(kOfLow, lie.length));
    run.me.run();
    const CallId call = run.call(7, true);
    EXPECT_TRUE(run.low->shown_out());
    EXPECT_TRUE(run.has_heard_of("a segment that no round expects"));
    EXPECT_FALSE(run.high->shown_out());
    EXPECT_TRUE(std::ranges::equal(run.me.sent(call), run.input));
    run.stopped({7});
    EXPECT_TRUE(run.me.all_calls_over());
    EXPECT_EQ(run.me.footprint().remembered, 0U);
    run.expect_alive();
  }
}

TEST(EarlyContributions, NothingIsKeptOfAnAttemptThatIsOver) {
  DirectRound run;
  run.both_contribute(7);
  run.both_contribute(8);
  const CallId call = run.call(8, true);
  EXPECT_EQ(run.me.footprint().remembered, 2U);
  run.install(run.loss_of(kHigh));
  EXPECT_EQ(run.me.footprint().remembered, 0U);
  EXPECT_TRUE(std::ranges::equal(run.me.sent(call), run.input));
  EXPECT_EQ(run.me.outcome(call), nullptr) << "it begins again";
  run.coordinator->say(wire::Evicted{});
  run.me.run();
  EXPECT_TRUE(run.me.all_calls_over());
  EXPECT_EQ(run.me.footprint().remembered, 0U);
  EXPECT_EQ(run.me.footprint().streams, 0U);
}

// The kernels are slow: the round ends while they copy what came early.
TEST(EarlyContributions, AnAbortWaitsForTheirCopies) {
  DirectRound run;
  run.both_contribute();
  run.me.jobs_held = true;
  const CallId call = run.call(7, true);
  run.stopped({7});
  EXPECT_EQ(run.me.outcome(call), nullptr);
  run.me.jobs_held = false;
  run.me.run();
  ASSERT_NE(run.me.outcome(call), nullptr);
  EXPECT_EQ(run.me.outcome(call)->status, Status::kAborted);
  EXPECT_TRUE(std::ranges::equal(run.me.sent(call), run.input));
  EXPECT_EQ(run.me.footprint().remembered, 0U);
  run.expect_alive();
}

}  // namespace
}  // namespace lockstep::peer
