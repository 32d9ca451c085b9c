// Small tensors are sent eagerly (rule 10): a segment that arrives before the launch is kept and used; a lost segment
// is sent again.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/kernels/checksum.h"
#include "core/ring/schedule.h"
#include "tests/core/peer/small.h"

namespace lockstep::peer {
namespace {

// ---- segments that arrive before the launch ----

TEST(EagerSegments, SegmentsThatArrivedEarlyAreFoldedAtTheLaunch) {
  for (const bool in_place : {false, true}) {
    SCOPED_TRACE(in_place);
    Small run(kMiddle);
    run.offered();
    EXPECT_EQ(run.me.footprint().remembered, 1U);
    EXPECT_EQ(run.high->segments_heard(), 0U);
    const CallId call = run.call(7, in_place);
    EXPECT_EQ(run.high->segments_heard(), 1U);
    run.expect_sent(plus(run.input));
    const auto* offer = run.high->last<wire::Offer>();
    ASSERT_NE(offer, nullptr);
    EXPECT_EQ(offer->key, Peer3::key());
    EXPECT_EQ(offer->what, arguments());
    EXPECT_TRUE(offer->follows);
    EXPECT_EQ(run.low->count<wire::Ready>(), 0U);  // the segment needed no Ready
    EXPECT_EQ(run.high->count<wire::Ready>(), 0U);
    run.stopped({7});
    ASSERT_NE(run.me.outcome(call), nullptr);
    EXPECT_EQ(run.me.outcome(call)->status, Status::kAborted);
    EXPECT_TRUE(std::ranges::equal(run.me.sent(call), run.input));  // S3
    EXPECT_EQ(run.me.footprint().remembered, 0U);
    run.expect_alive();
  }
}

TEST(EagerSegments, TheOwnerComputesTheFinalFromAnEarlySegment) {
  for (const bool in_place : {false, true}) {
    SCOPED_TRACE(in_place);
    Small run(kOwner);
    run.offered();
    const CallId call = run.call(7, in_place);
    run.expect_sent(plus(run.input));
    EXPECT_EQ(run.high->last_segment()->segment.segment.phase, wire::Phase::kAllGather);
    EXPECT_EQ(run.high->count<wire::Offer>(), 0U);  // the receiver of a final has launched the round
    const auto* done = run.coordinator->last<wire::Done>();
    ASSERT_NE(done, nullptr);
    run.coordinator->say(wire::Commit{done->key, done->attempt, done->hash, false, {}});
    run.me.run();
    ASSERT_NE(run.me.outcome(call), nullptr);
    EXPECT_EQ(run.me.outcome(call)->status, Status::kOk);
    EXPECT_TRUE(std::ranges::equal(run.me.received(call), plus(run.input)));
    EXPECT_EQ(run.me.footprint().remembered, 0U);
  }
}

TEST(EagerSegments, ASegmentOnItsWayAtTheLaunchIsFoldedOnArrival) {
  const std::vector<std::byte> frame = Small::frame();
  for (std::size_t cut = 0; cut <= frame.size(); ++cut) {
    SCOPED_TRACE(cut);
    Small run(kMiddle);
    run.low->say(Small::offer());
    run.low->say_bytes(std::span(frame).first(cut));
    run.me.run();
    run.call(7, cut % 2 == 0);
    EXPECT_EQ(run.high->segments_heard(), cut == frame.size() ? 1U : 0U);
    run.low->say_bytes(std::span(frame).subspan(cut));
    run.me.run();
    EXPECT_EQ(run.high->segments_heard(), 1U);
    run.expect_sent(plus(run.input));
    EXPECT_FALSE(run.low->shown_out());
  }
}

TEST(EagerSegments, ALostSegmentIsAcceptedWhenItIsRepeated) {
  const std::vector<std::byte> frame = Small::frame();
  for (const bool launched_meanwhile : {false, true}) {
    for (const std::size_t cut : {std::size_t{0}, frame.size() - 30, frame.size() - 1, frame.size()}) {
      SCOPED_TRACE(cut);
      Small run(kMiddle);
      run.low->say(Small::offer());
      run.low->say_bytes(std::span(frame).first(cut));
      run.me.run();
      run.low->hang_up();
      run.me.run();
      if (launched_meanwhile) run.call();
      run.low = &run.dial_in(kLow);
      run.offered();
      if (!launched_meanwhile) run.call();
      EXPECT_EQ(run.high->segments_heard(), 1U);
      run.expect_sent(plus(run.input));
      EXPECT_FALSE(run.low->shown_out());
    }
  }
}

TEST(EagerSegments, ATensorOfTheFullSizeFitsASlot) {
  constexpr std::uint32_t kFull = ring::kWholeBytes;
  Small run(kMiddle);
  run.low->say(Small::offer(7, true, kFull));
  run.low->say_segment(Small::partial(7, kFull), kFilling, Small::right(kFull));
  run.me.run();
  run.call(7, true, kFull);
  run.expect_sent(plus(run.input));
}

TEST(EagerSegments, RoundsMayArriveInAnyOrder) {
  Small run(kMiddle);
  for (const std::uint64_t tag : {1U, 2U, 3U, 4U}) run.offered(tag);
  EXPECT_EQ(run.me.footprint().remembered, 4U);
  for (const std::uint64_t tag : {4U, 1U, 3U, 2U}) {
    run.call(tag);
    run.expect_sent(plus(run.input));
    EXPECT_EQ(run.high->last_segment()->segment.segment.key, Peer3::key(tag));
  }
}

// ---- different arguments ----

TEST(EagerSegments, DifferentArgumentsStopTheRound) {
  for (const bool launched_before : {false, true}) {
    SCOPED_TRACE(launched_before);
    Small run(kMiddle);
    if (launched_before) run.call();
    run.low->say(Small::offer(7, true, 20));
    run.low->say_segment(Small::partial(7, 20), kFilling, Small::right(20));
    run.me.run();
    if (!launched_before) run.call();
    const auto* stop = run.coordinator->last<wire::StopRound>();
    ASSERT_NE(stop, nullptr);
    EXPECT_EQ(stop->status, Status::kMismatch);
    EXPECT_NE(stop->text.find("20 on p1"), std::string::npos) << stop->text;
    EXPECT_EQ(run.high->segments_heard(), 0U);
    EXPECT_FALSE(run.low->shown_out());  // different arguments do not violate the protocol
    run.stopped({7});
    EXPECT_TRUE(run.me.all_calls_over());
    EXPECT_EQ(run.me.footprint().remembered, 0U);
    run.expect_alive();
  }
}

TEST(EagerSegments, DifferentArgumentsAfterHalfASegmentStopTheRound) {
  Small run(kMiddle);
  std::vector<std::byte> frame;
  wire::encode(wire::Message(Small::partial(7, 20)), Term{1}, frame);
  run.low->say(Small::offer(7, true, 20));
  run.low->say_bytes(frame);
  run.me.run();
  run.call();
  ASSERT_NE(run.coordinator->last<wire::StopRound>(), nullptr);
  run.low->say_bytes(std::vector<std::byte>(20 + wire::kTrailerBytes, std::byte{0}));
  run.me.run();
  EXPECT_FALSE(run.low->shown_out());
  run.stopped({7});
  EXPECT_TRUE(run.me.all_calls_over());
  run.expect_alive();
}

TEST(EagerSegments, AnOfferOfAnotherCollectiveStopsTheRound) {
  for (const auto collective : {wire::Collective::kBarrier, wire::Collective::kBroadcast, wire::Collective::kAllGather,
                                wire::Collective::kReduceScatter}) {
    SCOPED_TRACE(name_of(collective));
    Small run(kMiddle, kFar, false);
    run.offered();
    Request request;
    request.collective = collective;
    request.type = DataType::kU8;
    request.tag = Tag{7};
    request.root = kLow;
    run.me.launch(request, kCount, std::uint64_t{3} * kCount);
    run.me.run();
    const wire::RankParameter sizes[] = {{Peer3::key(), Generation{1}, Rank{0}, 16},
                                         {Peer3::key(), Generation{1}, Rank{1}, 16}};
    if (collective == wire::Collective::kAllGather) {
      for (const auto& size : sizes) run.low->say(size);
    }
    run.me.run();
    const auto* stop = run.coordinator->last<wire::StopRound>();
    ASSERT_NE(stop, nullptr);
    EXPECT_EQ(stop->status, Status::kMismatch);
    EXPECT_FALSE(run.low->shown_out());
  }
}

// ---- offers without data ----

TEST(EagerSegments, AnOfferWithoutDataIsAnsweredWithReady) {
  for (const bool launched_before : {false, true}) {
    SCOPED_TRACE(launched_before);
    Small run(kMiddle);
    if (launched_before) run.call();
    run.low->say(Small::offer(7, false));
    run.me.run();
    EXPECT_EQ(run.low->count<wire::Ready>(), launched_before ? 1U : 0U);
    if (!launched_before) run.call();
    ASSERT_EQ(run.low->count<wire::Ready>(), 1U);
    EXPECT_EQ(run.low->last<wire::Ready>()->key, Peer3::key());
    EXPECT_TRUE(run.low->last<wire::Ready>()->landing);
    EXPECT_TRUE(run.low->last<wire::Ready>()->have.empty());
    run.low->say_segment(Small::partial(), kFilling, Small::right());
    run.me.run();
    run.expect_sent(plus(run.input));
  }
}

// Otherwise a neighbour could get a Ready, whose size grows with the round, for every few bytes.
TEST(EagerSegments, AnOfferOfALargeRoundIsNotAnswered) {
  Small run(kMiddle);
  Request request;
  request.collective = wire::Collective::kAllReduce;
  request.type = DataType::kU8;
  request.tag = Tag{7};
  request.algorithm = wire::Algorithm::kRing;
  run.me.launch(request, 100'000, 100'000);
  run.me.run();
  ASSERT_EQ(run.low->count<wire::Ready>(), 1U);
  wire::Offer offer = Small::offer(7, false);
  offer.what = run.low->last<wire::Ready>()->what;
  for (int i = 0; i < 10; ++i) run.low->say(offer);
  run.me.run();
  EXPECT_EQ(run.low->count<wire::Ready>(), 1U);
}

TEST(EagerSegments, ALimitedNumberOfSegmentsIsSentEagerly) {
  constexpr std::uint64_t kRounds = 100;
  constexpr std::uint64_t kEager = 64;
  Small run(kStarter);
  for (std::uint64_t tag = 1; tag <= kRounds; ++tag) run.call(tag);
  EXPECT_EQ(run.high->segments_heard(), kEager);
  std::size_t follow = 0;
  std::size_t wait = 0;
  for (const wire::Message& message : run.high->heard()) {
    if (const auto* offer = std::get_if<wire::Offer>(&message)) ++(offer->follows ? follow : wait);
  }
  EXPECT_EQ(follow, kEager);
  EXPECT_EQ(wait, kRounds - kEager);

  run.high->say(wire::Ready{Peer3::key(80), Generation{1}, arguments(), true, {}, false, 0});
  run.me.run();
  EXPECT_EQ(run.high->segments_heard(), kEager + 1);
  EXPECT_EQ(run.high->last_segment()->segment.segment.key, Peer3::key(80));
  EXPECT_EQ(run.high->last<wire::Offer>()->key, Peer3::key(kRounds));  // the requested segment needs no offer

  run.stopped({1, 2, 3});  // their segments are no longer under way
  for (std::uint64_t tag = 201; tag <= 204; ++tag) run.call(tag);
  EXPECT_EQ(run.high->segments_heard(), kEager + 4);
  EXPECT_FALSE(run.high->last<wire::Offer>()->follows);
}

TEST(EagerSegments, AnOfferIsRepeatedOnANewStream) {
  Small run(kStarter);
  for (std::uint64_t tag = 1; tag <= 65; ++tag) run.call(tag);
  run.high_hangs_up();
  run.high_comes_again();
  EXPECT_EQ(run.high->segments_heard(), 64U);
  ASSERT_EQ(run.high->count<wire::Offer>(), 65U);
  run.high->say(wire::Ready{Peer3::key(65), Generation{1}, arguments(), true, {}, false, 0});
  run.me.run();
  EXPECT_EQ(run.high->segments_heard(), 65U);
}

// ---- segments that were sent on a lost stream ----

TEST(EagerSegments, ASegmentSentBeforeTheNeighboursLaunchIsRepeated) {
  Small run(kStarter);
  run.call();
  EXPECT_EQ(run.high->segments_heard(), 1U);
  for (int i = 0; i < 3; ++i) {
    run.high_hangs_up();
    run.high_comes_again();
    EXPECT_EQ(run.high->segments_heard(), 1U);
    EXPECT_EQ(run.high->count<wire::Offer>(), 1U);
    run.expect_sent(run.input);
  }
}

// The Ready may have overtaken the segment, on another stripe.
TEST(EagerSegments, ASegmentSentBeforeTheNeighboursReadyIsRepeatedAtOnce) {
  for (const bool has : {false, true}) {
    SCOPED_TRACE(has);
    Small run(kStarter);
    run.call();
    wire::Ready ready{Peer3::key(), Generation{1}, arguments(), true, {}, false, 0};
    run.high->say(ready);
    run.me.run();
    EXPECT_EQ(run.high->segments_heard(), 1U);
    run.high_hangs_up();
    run.high_comes_again();
    EXPECT_EQ(run.high->segments_heard(), 1U);
    if (has) ready.have = {1};
    run.high->say(ready);
    run.me.run();
    EXPECT_EQ(run.high->segments_heard(), 1U);
  }
}

// ---- corrupt segments ----

TEST(EagerSegments, ACorruptSegmentEndsItsStreamAndIsAcceptedWhenRepeated) {
  for (const bool in_place : {false, true}) {
    for (const bool stream_is_gone : {false, true}) {
      SCOPED_TRACE(stream_is_gone);
      Small run(kMiddle);
      run.low->say(Small::offer());
      run.low->say_segment(Small::partial(), kFilling, Small::right() + 1);
      run.me.run();
      EXPECT_FALSE(run.low->shown_out());
      if (stream_is_gone) run.low_comes_again();
      run.call(7, in_place);
      EXPECT_TRUE(
          run.low
              ->shown_out());  // if the stream of `low` is closed, the link begins again and asks for missing segments
      EXPECT_TRUE(run.has_heard_of("checksum is wrong"));
      EXPECT_EQ(run.high->segments_heard(), 0U);
      run.low = &run.dial_in(kLow);
      ASSERT_NE(run.low->last<wire::Ready>(), nullptr);
      EXPECT_TRUE(run.low->last<wire::Ready>()->have.empty());
      run.offered();
      EXPECT_EQ(run.high->segments_heard(), 1U);
      run.expect_sent(plus(run.input));
      run.stopped({7});
      EXPECT_EQ(run.me.footprint().remembered, 0U);
    }
  }
}

// Rule 35: the program has written to its tensor, so a repetition would not be what was announced.
TEST(EagerSegments, ASegmentThatChangedIsNotSentAgain) {
  Small run(kStarter);
  const CallId call = run.call(7);
  ASSERT_EQ(run.high->segments_heard(), 1U);
  run.me.rewrite(call);
  run.high_hangs_up();
  run.high_comes_again();
  EXPECT_EQ(run.high->segments_heard(), 0U);
  const auto* const stop = run.coordinator->last<wire::StopRound>();
  ASSERT_NE(stop, nullptr);
  EXPECT_EQ(stop->status, Status::kInvalidArgument);
  EXPECT_NE(stop->text.find("me"), std::string::npos) << stop->text;
  EXPECT_NE(stop->text.find("a buffer of the call changed during the call"), std::string::npos) << stop->text;
}

// ---- memory ----

TEST(EagerSegments, NothingIsKeptOfRoundsThatAreOver) {
  Small run(kMiddle);
  const auto say = [&](auto change) {
    wire::Offer offer = Small::offer();
    change(offer);
    run.low->say(offer);
    run.me.run();
  };
  say([](auto& offer) { offer.key.cohort.value = 0; });
  say([](auto& offer) { offer.attempt.value = 0; });
  EXPECT_EQ(run.me.footprint().remembered, 0U);
  run.call();
  run.stopped({7});
  say([](auto&) {});
  EXPECT_EQ(run.me.footprint().remembered, 0U);

  run.offered(8);
  EXPECT_EQ(run.me.footprint().remembered, 1U);
  run.install(run.loss_of(kHigh));  // every round begins a new attempt
  EXPECT_EQ(run.me.footprint().remembered, 0U);
}

TEST(EagerSegments, AnOfferOfTheNextCohortIsKept) {
  Small run(kMiddle);
  for (const std::uint64_t cohort : {1U, 2U}) {
    wire::Offer offer = Small::offer();
    offer.key.cohort.value = cohort;
    offer.attempt.value = cohort;
    wire::Segment segment = Small::partial();
    segment.key = offer.key;
    segment.attempt = attempt_id(offer.attempt);
    run.low->say(offer);
    run.low->say_segment(segment, kFilling, Small::right());
  }
  run.me.run();
  EXPECT_EQ(run.me.footprint().remembered, 2U);
  run.install(run.proposal(view_of(2, 2, kMiddle)));
  EXPECT_EQ(run.me.footprint().remembered, 1U);
  run.call();
  run.expect_sent(plus(run.input));
  EXPECT_EQ(run.high->last_segment()->segment.segment.key.cohort, CohortId{2});
}

TEST(EagerSegments, NothingIsKeptAfterTheRun) {
  const std::vector<std::byte> frame = Small::frame(9);
  Small run(kMiddle);
  run.offered(7);
  run.offered(8);
  run.call(8);
  run.low->say(Small::offer(9));
  run.low->say_bytes(std::span(frame).first(frame.size() - 20));
  run.me.run();
  EXPECT_GT(run.me.footprint().remembered, 0U);
  run.coordinator->say(wire::Evicted{});
  run.me.run();
  EXPECT_TRUE(run.me.all_calls_over());
  EXPECT_EQ(run.me.footprint().remembered, 0U);
  EXPECT_EQ(run.me.footprint().streams, 0U);
}

// A round that was stopped before the launch is never launched: its segments would keep their slots.
TEST(EagerSegments, NothingIsKeptOfRoundsStoppedBeforeTheLaunch) {
  Small run(kMiddle);
  for (std::uint64_t batch = 0; batch < 6; ++batch) {
    std::vector<std::uint64_t> tags;
    for (std::uint64_t i = 1; i <= 64; ++i) tags.push_back(batch * 1000 + i);
    for (const std::uint64_t tag : tags) run.offered(tag);
    ASSERT_FALSE(run.low->shown_out()) << batch;
    run.stopped(tags);
    for (const std::uint64_t tag : tags) run.low->say(Small::offer(tag));  // after the stop
    run.me.run();
  }
  const CallId stopped = run.call(1);
  ASSERT_NE(run.me.outcome(stopped), nullptr);
  EXPECT_EQ(run.me.outcome(stopped)->status, Status::kAborted);
  EXPECT_EQ(run.me.footprint().remembered, 6U * 64 - 1);  // verdicts only
}

// These rounds wait for the commit; a neighbour that has committed already sends more segments.
TEST(EagerSegments, AFoldedSegmentNeedsNoSlot) {
  Small run(kMiddle);
  for (std::uint64_t tag = 1; tag <= 256; ++tag) {
    run.offered(tag);
    run.call(tag);
  }
  for (std::uint64_t tag = 1001; tag <= 1064; ++tag) run.offered(tag);
  EXPECT_FALSE(run.low->shown_out());
  EXPECT_FALSE(run.has_heard_of("no round expects"));
}

// ---- a round that ends while a segment arrives ----

// A segment that was arriving in a slot went to the sink when its round ended. The next segment of the stream got a
// second slot, and an assertion failed.
TEST(EagerSegments, TheSegmentAfterAnAbandonedOneIsAccepted) {
  const std::vector<std::byte> frame = Small::frame(7);
  Small run(kMiddle);
  const CallId call = run.call(7);
  run.me.jobs_held = true;
  run.offered(7);    // its fold is held back
  run.stopped({7});  // the round ends after the fold
  run.low_comes_again();
  run.low->say(Small::offer(7));  // repeated: `low` knows neither of the launch nor of the end
  run.low->say_bytes(std::span(frame).first(frame.size() - 20));
  run.me.run();
  EXPECT_EQ(run.me.outcome(call), nullptr);
  run.low->say_bytes(std::span(frame).subspan(frame.size() - 20));
  run.me.run();
  run.offered(8);
  run.offered(9);
  run.me.jobs_held = false;
  run.me.run();
  EXPECT_NE(run.me.outcome(call), nullptr);
  EXPECT_EQ(run.me.footprint().remembered, 2U);
  for (const std::uint64_t tag : {9U, 8U}) {
    run.call(tag);
    run.expect_sent(plus(run.input));
  }
  EXPECT_FALSE(run.low->shown_out());
}

}  // namespace
}  // namespace lockstep::peer
