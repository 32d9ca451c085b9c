// Small tensors go to the neighbour unasked: what comes before the launch is kept and used, what is lost goes again, and a
// neighbour that lies about it hurts nobody else.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/kernels/checksum.h"
#include "core/ring/schedule.h"
#include "tests/core/peer/peer3.h"

namespace lockstep::peer {
namespace {

// Low is upstream and high downstream whatever our rank; rank 0 owns the tensor, and its partial sums start at rank 1.
const std::vector<PeerId> kOwner = {kMe, kHigh, kLow};
const std::vector<PeerId> kStarter = {kLow, kMe, kHigh};
const std::vector<PeerId> kMiddle = {kHigh, kLow, kMe};

constexpr std::uint32_t kCount = 16;  // bytes: the tensors are of kU8
constexpr std::byte kFilling{7};      // of what low sends

Options small_options() {
  Options small = options();
  small.segment_bytes = 0;  // chosen: a small tensor goes whole
  return small;
}

// What everybody states who launches the round.
wire::Descriptor arguments(std::uint64_t count = kCount) {
  wire::Descriptor what;
  what.collective = wire::Collective::kAllReduce;
  what.type = DataType::kU8;
  what.tensors = 1;
  what.count = count;
  what.layout = checksum(std::as_bytes(std::span(&count, 1)));
  return what;
}

std::vector<std::byte> plus(std::span<const std::byte> own, std::byte filling = kFilling) {
  std::vector<std::byte> sum(own.begin(), own.end());
  for (std::byte& byte : sum) byte = static_cast<std::byte>(std::to_integer<int>(byte) + std::to_integer<int>(filling));
  return sum;
}

struct Small : Peer3 {
  explicit Small(const std::vector<PeerId>& ring) : Peer3(small_options(), ring) {}

  static wire::Offer offer(std::uint64_t tag = 7, bool follows = true, std::uint64_t count = kCount) {
    return {key(tag), Generation{1}, arguments(count), follows};
  }
  static wire::Segment partial(std::uint64_t tag = 7, std::uint32_t length = kCount) {
    return {key(tag), Generation{1}, wire::Phase::kReduceScatter, SegmentIndex{0}, length};
  }
  static std::uint64_t right(std::uint32_t length = kCount) {
    return checksum(std::vector<std::byte>(length, kFilling));
  }

  void offered(std::uint64_t tag = 7) {
    low->say(offer(tag));
    low->say_segment(partial(tag), kFilling, right());
    me.run();
  }
  // The frame of low's partial sum, for those who say a part of it.
  static std::vector<std::byte> frame(std::uint64_t tag = 7) {
    std::vector<std::byte> bytes;
    wire::encode(wire::Message(partial(tag)), Term{1}, bytes);
    bytes.insert(bytes.end(), kCount, kFilling);
    bytes.resize(bytes.size() + wire::kTrailerBytes);
    wire::encode(wire::Trailer{right(), false}, std::span(bytes).last<wire::kTrailerBytes>());
    return bytes;
  }
  CallId call(std::uint64_t tag = 7, bool in_place = false, std::uint64_t count = kCount) {
    Request request;
    request.collective = wire::Collective::kAllReduce;
    request.type = DataType::kU8;
    request.tag = Tag{tag};
    const CallId id = me.launch(request, count, 0, in_place);
    input.assign(me.sent(id).begin(), me.sent(id).end());
    me.run();
    return id;
  }
  // The coordinator has decided to stop these rounds.
  void stopped(const std::vector<std::uint64_t>& tags) {
    wire::Propose propose = proposal(me.views.back());
    for (const std::uint64_t tag : tags) propose.verdicts.push_back({key(tag), Generation{1}, Status::kAborted, 0, {}});
    install(propose);
  }
  void low_comes_again() {
    low->hang_up();
    me.run();
    low = &dial_in(kLow);
  }
  void high_hangs_up() {
    high->hang_up();
    me.run();
  }
  void high_comes_again() {
    me.pass(milliseconds(20));  // longer than the first back-off
    me.run();
    high = me.streams.dialling().front();
    me.streams.open(*high);
    high->greet();
    high->say(wire::LinkWelcome{});
    me.run();
  }
  void expect_sent(const std::vector<std::byte>& payload) {
    ASSERT_TRUE(high->last_segment());
    EXPECT_EQ(high->last_segment()->payload, payload);
    EXPECT_EQ(high->last_segment()->segment.checksum, checksum(payload));
    EXPECT_FALSE(high->last_segment()->segment.taken_back);
  }
  [[nodiscard]] bool has_heard_of(const std::string& reason) const {
    return std::any_of(me.events.begin(), me.events.end(),
                       [&](const trace::Event& event) { return event.text.find(reason) != std::string::npos; });
  }

  std::vector<std::byte> input;  // of the last call
};

// ---- what comes before the launch ----

TEST(Heralds, WhatCameBeforeTheLaunchIsFoldedAtTheLaunch) {
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
    EXPECT_EQ(run.low->count<wire::Ready>(), 0U);  // nobody asks, nobody answers
    EXPECT_EQ(run.high->count<wire::Ready>(), 0U);
    run.stopped({7});
    ASSERT_NE(run.me.outcome(call), nullptr);
    EXPECT_EQ(run.me.outcome(call)->status, Status::kAborted);
    EXPECT_TRUE(std::ranges::equal(run.me.sent(call), run.input));  // S3
    EXPECT_EQ(run.me.footprint().remembered, 0U);
    run.expect_alive();
  }
}

TEST(Heralds, TheOwnerMakesTheFinalOfIt) {
  for (const bool in_place : {false, true}) {
    SCOPED_TRACE(in_place);
    Small run(kOwner);
    run.offered();
    const CallId call = run.call(7, in_place);
    run.expect_sent(plus(run.input));
    EXPECT_EQ(run.high->last_segment()->segment.segment.phase, wire::Phase::kAllGather);
    EXPECT_EQ(run.high->count<wire::Offer>(), 0U);  // who gets a final has launched
    const auto* done = run.coordinator->last<wire::Done>();
    ASSERT_NE(done, nullptr);
    run.coordinator->say(wire::Commit{done->key, done->attempt, done->hash, false});
    run.me.run();
    ASSERT_NE(run.me.outcome(call), nullptr);
    EXPECT_EQ(run.me.outcome(call)->status, Status::kOk);
    EXPECT_TRUE(std::ranges::equal(run.me.received(call), plus(run.input)));
    EXPECT_EQ(run.me.footprint().remembered, 0U);
  }
}

TEST(Heralds, WhatIsStillOnItsWayAtTheLaunchIsFoldedWhenItIsThere) {
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

TEST(Heralds, WhatIsLostOnItsWayIsTakenWhenItComesAgain) {
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

TEST(Heralds, ATensorOfTheFullSizeFitsASlot) {
  constexpr std::uint32_t kFull = ring::kWholeBytes;
  Small run(kMiddle);
  run.low->say(Small::offer(7, true, kFull));
  run.low->say_segment(Small::partial(7, kFull), kFilling, Small::right(kFull));
  run.me.run();
  run.call(7, true, kFull);
  run.expect_sent(plus(run.input));
}

TEST(Heralds, RoundsComeInAnyOrder) {
  Small run(kMiddle);
  for (const std::uint64_t tag : {1U, 2U, 3U, 4U}) run.offered(tag);
  EXPECT_EQ(run.me.footprint().remembered, 4U);
  for (const std::uint64_t tag : {4U, 1U, 3U, 2U}) {
    run.call(tag);
    run.expect_sent(plus(run.input));
    EXPECT_EQ(run.high->last_segment()->segment.segment.key, Peer3::key(tag));
  }
}

// ---- other arguments ----

TEST(Heralds, OtherArgumentsStopTheRound) {
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
    EXPECT_NE(stop->text.find("20 elements"), std::string::npos) << stop->text;
    EXPECT_EQ(run.high->segments_heard(), 0U);
    EXPECT_FALSE(run.low->shown_out());  // it has made a mistake, but it speaks well
    run.stopped({7});
    EXPECT_TRUE(run.me.all_calls_over());
    EXPECT_EQ(run.me.footprint().remembered, 0U);
    run.expect_alive();
  }
}

TEST(Heralds, OtherArgumentsBehindHalfASegmentStopTheRound) {
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

TEST(Heralds, AnOfferOfAnotherCollectiveStopsIt) {
  for (const auto collective : {wire::Collective::kBarrier, wire::Collective::kBroadcast, wire::Collective::kAllGather,
                                wire::Collective::kReduceScatter}) {
    SCOPED_TRACE(name_of(collective));
    Small run(kMiddle);
    run.offered();
    Request request;
    request.collective = collective;
    request.type = DataType::kU8;
    request.tag = Tag{7};
    request.root = kLow;
    run.me.launch(request, kCount, std::uint64_t{3} * kCount);
    run.me.run();
    const wire::BlockSize sizes[] = {{Peer3::key(), Generation{1}, Rank{0}, 16},
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

// ---- those that wait to be asked ----

TEST(Heralds, AnOfferThatNothingFollowsIsAnsweredWithReady) {
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

// Else a neighbour could have a Ready, which grows with the round, for every few bytes.
TEST(Heralds, AnOfferOfARoundThatIsNotSmallIsNotAnswered) {
  Small run(kMiddle);
  Request request;
  request.collective = wire::Collective::kAllReduce;
  request.type = DataType::kU8;
  request.tag = Tag{7};
  run.me.launch(request, 100'000, 100'000);
  run.me.run();
  ASSERT_EQ(run.low->count<wire::Ready>(), 1U);
  wire::Offer offer = Small::offer(7, false);
  offer.what = run.low->last<wire::Ready>()->what;
  for (int i = 0; i < 10; ++i) run.low->say(offer);
  run.me.run();
  EXPECT_EQ(run.low->count<wire::Ready>(), 1U);
}

TEST(Heralds, OnlySoManyGoUnasked) {
  constexpr std::uint64_t kRounds = 100;
  constexpr std::uint64_t kUnasked = 64;
  Small run(kStarter);
  for (std::uint64_t tag = 1; tag <= kRounds; ++tag) run.call(tag);
  EXPECT_EQ(run.high->segments_heard(), kUnasked);
  std::size_t follow = 0;
  std::size_t wait = 0;
  for (const wire::Message& message : run.high->heard()) {
    if (const auto* offer = std::get_if<wire::Offer>(&message)) ++(offer->follows ? follow : wait);
  }
  EXPECT_EQ(follow, kUnasked);
  EXPECT_EQ(wait, kRounds - kUnasked);

  run.high->say(wire::Ready{Peer3::key(80), Generation{1}, arguments(), true, {}});
  run.me.run();
  EXPECT_EQ(run.high->segments_heard(), kUnasked + 1);
  EXPECT_EQ(run.high->last_segment()->segment.segment.key, Peer3::key(80));
  EXPECT_EQ(run.high->last<wire::Offer>()->key, Peer3::key(kRounds));  // none with it: it was asked for

  run.stopped({1, 2, 3});  // these are no more under way
  for (std::uint64_t tag = 201; tag <= 204; ++tag) run.call(tag);
  EXPECT_EQ(run.high->segments_heard(), kUnasked + 4);
  EXPECT_FALSE(run.high->last<wire::Offer>()->follows);
}

TEST(Heralds, WhoWaitsToBeAskedSaysItAgainOnAnotherStream) {
  Small run(kStarter);
  for (std::uint64_t tag = 1; tag <= 65; ++tag) run.call(tag);
  run.high_hangs_up();
  run.high_comes_again();
  EXPECT_EQ(run.high->segments_heard(), 64U);
  ASSERT_EQ(run.high->count<wire::Offer>(), 65U);
  run.high->say(wire::Ready{Peer3::key(65), Generation{1}, arguments(), true, {}});
  run.me.run();
  EXPECT_EQ(run.high->segments_heard(), 65U);
}

// ---- what we have sent, and the stream is lost ----

TEST(Heralds, WhatWasSentToANeighbourThatHasNotLaunchedGoesAgain) {
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

TEST(Heralds, WhatWasSentToOneThatHasLaunchedGoesAgainIfItSaysSo) {
  for (const bool has : {false, true}) {
    SCOPED_TRACE(has);
    Small run(kStarter);
    run.call();
    wire::Ready ready{Peer3::key(), Generation{1}, arguments(), true, {}};
    run.high->say(ready);
    run.me.run();
    EXPECT_EQ(run.high->segments_heard(), 1U);
    run.high_hangs_up();
    run.high_comes_again();
    EXPECT_EQ(run.high->segments_heard(), 0U);
    if (has) ready.have = {1};
    run.high->say(ready);
    run.me.run();
    EXPECT_EQ(run.high->segments_heard(), has ? 0U : 1U);
  }
}

// ---- bits that are flipped on the way ----

TEST(Heralds, ACorruptOneEndsItsStreamAndIsTakenWhenItComesAgain) {
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
          run.low->shown_out());  // if its own is gone, all of the link begins anew: what is missing is told there
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

// ---- what is remembered ----

TEST(Heralds, OfWhatIsOverNothingIsRemembered) {
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
  run.install(run.loss_of(kHigh));  // a new attempt of everything
  EXPECT_EQ(run.me.footprint().remembered, 0U);
}

TEST(Heralds, AnOfferOfTheCohortToComeIsKeptForIt) {
  Small run(kMiddle);
  for (const std::uint64_t cohort : {1U, 2U}) {
    wire::Offer offer = Small::offer();
    offer.key.cohort.value = cohort;
    offer.attempt.value = cohort;
    wire::Segment segment = Small::partial();
    segment.key = offer.key;
    segment.attempt = offer.attempt;
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

TEST(Heralds, AfterTheRunNothingIsRemembered) {
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

// What is stopped before we launch it will never be launched: others would soon find no slot.
TEST(Heralds, OfWhatIsStoppedBeforeTheLaunchNothingIsRemembered) {
  Small run(kMiddle);
  for (std::uint64_t batch = 0; batch < 6; ++batch) {
    std::vector<std::uint64_t> tags;
    for (std::uint64_t i = 1; i <= 64; ++i) tags.push_back(batch * 1000 + i);
    for (const std::uint64_t tag : tags) run.offered(tag);
    ASSERT_FALSE(run.low->shown_out()) << batch;
    run.stopped(tags);
    for (const std::uint64_t tag : tags) run.low->say(Small::offer(tag));  // late
    run.me.run();
  }
  const CallId stopped = run.call(1);
  ASSERT_NE(run.me.outcome(stopped), nullptr);
  EXPECT_EQ(run.me.outcome(stopped)->status, Status::kAborted);
  EXPECT_EQ(run.me.footprint().remembered, 6U * 64 - 1);  // the verdicts
}

// They wait for the commit, which others may have heard already: those send on.
TEST(Heralds, WhatIsFoldedNeedsNoSlot) {
  Small run(kMiddle);
  for (std::uint64_t tag = 1; tag <= 256; ++tag) {
    run.offered(tag);
    run.call(tag);
  }
  for (std::uint64_t tag = 1001; tag <= 1064; ++tag) run.offered(tag);
  EXPECT_FALSE(run.low->shown_out());
  EXPECT_FALSE(run.has_heard_of("no round expects"));
}

// ---- the end of a round in the midst of it ----

// Found by reading: what was on its way into a slot went to the sink when its round ended, the next segment of that stream got
// a slot of its own, and the peer asserted.
TEST(Heralds, TheNextSegmentOfAStreamIsTakenWhenTheOneBeforeWasGivenUp) {
  const std::vector<std::byte> frame = Small::frame(7);
  Small run(kMiddle);
  const CallId call = run.call(7);
  run.me.jobs_held = true;
  run.offered(7);    // to be folded
  run.stopped({7});  // when that is done
  run.low_comes_again();
  run.low->say(Small::offer(7));  // and what it has sent, as it has heard neither of the launch nor of the end
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

// ---- liars ----

struct LieOfSmall {
  std::string name;
  std::function<void(Small&)> tell;
  std::string reason;  // empty: it is let pass
};

TEST(LyingHerald, HurtsNobodyElse) {
  const auto offers = [](auto change) {
    return [=](Small& r) {
      wire::Offer offer = Small::offer();
      change(offer);
      r.low->say(offer);
    };
  };
  const auto sends = [](auto change) {
    return [=](Small& r) {
      wire::Segment segment = Small::partial();
      change(segment);
      r.low->say(Small::offer());
      r.low->say_segment(segment, kFilling, Small::right(segment.length));
    };
  };
  const LieOfSmall lies[] = {
      {"nothing", [](Small&) {}, ""},
      {"another group", offers([](auto& o) { o.key.group.value = 3; }), "another group"},
      {"an attempt to come", offers([](auto& o) { o.attempt.value = 99; }), ""},
      {"a cohort to come", offers([](auto& o) { o.key.cohort.value = 99; }), ""},
      {"a use to come", offers([](auto& o) { o.key.use = 99; }), ""},
      {"more rounds than can be in flight",
       [](Small& r) {
         for (std::uint64_t tag = 1000; tag < 1600; ++tag) r.low->say(Small::offer(tag));
       },
       "more offers"},
      {"more segments than can be under way",
       [](Small& r) {
         for (std::uint64_t tag = 1000; tag < 1300; ++tag) {
           r.low->say(Small::offer(tag));
           r.low->say_segment(Small::partial(tag), kFilling, Small::right());
         }
       },
       "no round expects"},
      {"a final", sends([](auto& s) { s.phase = wire::Phase::kAllGather; }), "no round expects"},
      {"too long for a slot", sends([](auto& s) { s.length = kEarlySlotBytes + 1; }), "no round expects"},
      {"as long as can be", sends([](auto& s) { s.length = kMaxSegmentBytes; }), "no round expects"},
      {"too long", sends([](auto& s) { s.length = kCount + 1; }), "no round expects"},
      {"too short", sends([](auto& s) { s.length = kCount - 1; }), "no round expects"},
      {"empty", sends([](auto& s) { s.length = 0; }), "no round expects"},
      {"another index", sends([](auto& s) { s.index.value = 1; }), "no round expects"},
      {"an index as large as can be", sends([](auto& s) { s.index.value = kMaxSegments - 1; }), "no round expects"},
      {"twice",
       [](Small& r) {
         r.offered();
         r.offered();
       },
       ""},
      {"taken back",
       [](Small& r) {
         r.low->say(Small::offer());
         r.low->say_segment(Small::partial(), kFilling, 5, true);
         r.offered();
       },
       ""},
      {"without an offer", [](Small& r) { r.low->say_segment(Small::partial(), kFilling, Small::right()); }, ""},
      {"of an older term", [](Small& r) { r.low->say(Small::offer(), Term{0}); }, ""},
  };
  for (const bool launched_before : {false, true}) {
    for (const LieOfSmall& lie : lies) {
      SCOPED_TRACE(lie.name + (launched_before ? ", after the launch" : ", before the launch"));
      Small run(kMiddle);
      CallId call;
      if (launched_before) call = run.call(7, true);
      lie.tell(run);
      run.me.run();
      if (!launched_before) call = run.call(7, true);
      EXPECT_EQ(run.low->shown_out(), !lie.reason.empty());
      EXPECT_TRUE(run.has_heard_of(lie.reason));
      run.expect_alive();
      run.install(run.loss_of(kLow));
      EXPECT_EQ(run.me.outcome(call), nullptr);
      run.coordinator->say(wire::Evicted{});
      run.me.run();
      EXPECT_TRUE(run.me.all_calls_over());
      EXPECT_TRUE(std::ranges::equal(run.me.sent(call), run.input));
      EXPECT_EQ(run.me.footprint().streams, 0U);
      EXPECT_EQ(run.me.footprint().remembered, 0U);
    }
  }
}

// Of one neighbour a stream is shut for it, of the others none: they would be taken for broken.
TEST(LyingHerald, OfAnotherNeighbourTakesNothingFromUpstream) {
  Small run(kMiddle);
  run.offered(7);
  for (const std::uint64_t tag : {7U, 8U}) {  // before the honest one and after it
    run.high->say(Small::offer(tag));
    run.high->say_segment(Small::partial(tag), std::byte{9}, checksum(std::vector<std::byte>(kCount, std::byte{9})));
  }
  run.me.run();
  run.offered(8);
  for (std::uint64_t tag = 1000; tag < 1600; ++tag) {
    wire::Offer offer = Small::offer(tag);
    wire::Segment segment = Small::partial(tag);
    offer.attempt = segment.attempt = Generation{2};
    run.high->say(offer);
    run.high->say_segment(segment, kFilling, Small::right());
    run.me.run();
    if (run.high->shown_out()) run.high_comes_again();
  }
  for (std::uint64_t tag = 2000; tag < 2064; ++tag) run.offered(tag);
  EXPECT_FALSE(run.low->shown_out());
  for (const std::uint64_t tag : {7U, 8U, 2063U}) {
    run.call(tag);
    run.expect_sent(plus(run.input));
  }
}

// The same on two streams at once: one has the slot.
TEST(LyingHerald, ThatSendsOnTwoStripesFillsOneSlot) {
  const std::vector<std::byte> frame = Small::frame();
  Small run(kMiddle);
  run.low = &run.dial_in(kLow, 0, 2);
  FarEnd& other = run.dial_in(kLow, 1, 2);
  for (FarEnd* end : {run.low, &other}) end->say(Small::offer());
  run.low->say_bytes(std::span(frame).first(frame.size() - 1));
  other.say_bytes(std::span(frame).first(frame.size() - 20));
  run.me.run();
  run.call();
  other.say_bytes(std::span(frame).subspan(frame.size() - 20));
  run.me.run();
  EXPECT_EQ(run.high->segments_heard(), 0U);
  run.low->say_bytes(std::span(frame).last(1));
  run.me.run();
  run.expect_sent(plus(run.input));
  other.say_bytes(frame);
  run.me.run();
  EXPECT_EQ(run.high->segments_heard(), 1U);
}

}  // namespace
}  // namespace lockstep::peer
