// Which calls are disturbed, when, and what is made of their times.
#include "tests/lab/wan/disturbance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::wan {
namespace {

using ::testing::ElementsAre;

TEST(WanDisturbance, OnlyLinesThatSayACallDo) {
  EXPECT_EQ(call_in("call 12"), 12U);
  for (const char* const line : {"call", "call ", "call 0", "call 1x", "a call 1", "call -1", "measuring 8 MiB ..."}) {
    EXPECT_FALSE(call_in(line)) << line;
  }
}

// A connection of each hop of three peers, on which so many bytes arrive.
class Ring {
 public:
  Ring() {
    for (std::uint32_t hop = 0; hop < 3; ++hop) {
      TcpSegment syn = segment(hop);
      syn.syn = true;
      syn.ack = false;
      EXPECT_TRUE(connections.on_sent(syn, {}, out_));
    }
  }
  void carry(std::uint32_t bytes) {
    for (std::uint32_t hop = 0; hop < 3; ++hop) {
      TcpSegment data = segment(hop);
      data.payload_bytes = bytes;
      (void)connections.on_arrived(data, {}, out_);
    }
  }
  Connections connections;

 private:
  static TcpSegment segment(std::uint32_t hop) {
    TcpSegment segment;
    segment.from = {0x0a4d0001 + hop, 50'000};
    segment.to = {0x0a4d0001 + (hop + 1) % 3, 4000};
    segment.ack = true;
    return segment;
  }
  ResetsFor out_;
};

TEST(WanDisturbance, EverySecondCallIsDisturbedHalfwayThroughWhatTheOneBeforeCarried) {
  Ring ring;
  Disturbance disturbance(1, {1, 2, 3});
  ring.carry(12'345);  // before the first
  disturbance.on_call(1, ring.connections);
  ring.carry(10'000);
  disturbance.on_call(2, ring.connections);
  ring.carry(4'999);
  EXPECT_TRUE(ring.connections.resets().empty());
  ring.carry(1);
  ASSERT_EQ(ring.connections.resets().size(), 1U);
  disturbance.on_call(3, ring.connections);
  ring.carry(6'000);
  disturbance.on_call(4, ring.connections);
  ring.carry(2'999);
  EXPECT_EQ(ring.connections.resets().size(), 1U);
  ring.carry(1);
  ASSERT_EQ(ring.connections.resets().size(), 2U);
  EXPECT_EQ(ring.connections.resets()[0].a, 1U);
  EXPECT_EQ(ring.connections.resets()[1].a, 2U);  // the next hop
  EXPECT_EQ(ring.connections.resets()[1].b, 3U);
  const auto hits = disturbance.hits(4, ring.connections.resets());
  const Effect effect = effect_of({10, 11, 12, 13}, hits);
  EXPECT_THAT(effect.undisturbed, ElementsAre(10, 12));
  EXPECT_THAT(effect.disturbed, ElementsAre(11, 13));
  EXPECT_EQ(effect.wanted, 2U);
  EXPECT_EQ(effect.hit, 2U);
}

TEST(WanDisturbance, ACallThatCarriedTooLittleIsNeitherAndDisturbsNoOther) {
  Ring ring;
  Disturbance disturbance(1, {1, 2, 3});
  disturbance.on_call(1, ring.connections);
  ring.carry(10'000);
  disturbance.on_call(2, ring.connections);
  ring.carry(100);
  disturbance.on_call(3, ring.connections);
  ring.carry(10'000);
  EXPECT_TRUE(ring.connections.resets().empty());
  const Effect effect = effect_of({10, 11, 12}, disturbance.hits(3, ring.connections.resets()));
  EXPECT_THAT(effect.undisturbed, ElementsAre(10, 12));
  EXPECT_THAT(effect.disturbed, ElementsAre());
  EXPECT_EQ(effect.wanted, 1U);
  EXPECT_EQ(effect.hit, 0U);
}

TEST(WanDisturbance, MediansOfEvenNumbersLieBetween) {
  EXPECT_EQ(median_of({}), 0);
  EXPECT_EQ(median_of({3, 1, 2}), 2);
  EXPECT_EQ(median_of({4, 1, 2, 3}), 2.5);
}

}  // namespace
}  // namespace lockstep::wan
