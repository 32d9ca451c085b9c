// A neighbour that lies about its eager segments affects no other peer.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/kernels/checksum.h"
#include "tests/core/peer/small.h"

namespace lockstep::peer {
namespace {

struct LieOfSmall {
  std::string name;
  std::function<void(Small&)> tell;
  std::string reason;  // empty: the lie is ignored
};

TEST(LyingEagerSender, AffectsNoOtherPeer) {
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
         for (std::uint64_t tag = 1000; tag <= 1000 + 2 * kMaxRoundsInFlight; ++tag) r.low->say(Small::offer(tag));
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

// The stream of the lying neighbour is closed. The streams of honest neighbours stay open.
TEST(LyingEagerSender, DownstreamTakesNoSlotOfUpstream) {
  Small run(kMiddle);
  run.offered(7);
  for (const std::uint64_t tag : {7U, 8U}) {  // before the honest segment and after it
    run.high->say(Small::offer(tag));
    run.high->say_segment(Small::partial(tag), std::byte{9}, checksum(std::vector<std::byte>(kCount, std::byte{9})));
  }
  run.me.run();
  run.offered(8);
  for (std::uint64_t tag = 1000; tag <= 1000 + 2 * kMaxRoundsInFlight; ++tag) {
    wire::Offer offer = Small::offer(tag);
    wire::Segment segment = Small::partial(tag);
    offer.attempt = Generation{2};
    segment.attempt = attempt_id(offer.attempt);
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

// Both stripes carry the same segment: one of them gets the slot.
TEST(LyingEagerSender, FillsOneSlotWithTwoStripes) {
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
