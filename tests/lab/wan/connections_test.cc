// What the network knows of connections, and which one it resets, with which numbers.
#include "tests/lab/wan/connections.h"

#include <gtest/gtest.h>

namespace lockstep::wan {
namespace {

// One connection from a host's port to port 4000 of another; packets arrive at once, unless they are said to be lost.
class Talk {
 public:
  Talk(Connections& connections, std::uint32_t from, std::uint32_t to, std::uint16_t port, std::uint32_t first = 1000)
      : connections_(connections), from_{0x0a4d0000 + from, port}, to_{0x0a4d0000 + to, 4000}, next_(first) {
    TcpSegment syn = of(true);
    syn.syn = true;
    syn.ack = false;
    pass(syn);
    ++next_;
    TcpSegment answer = of(false);
    answer.syn = true;
    pass(answer);
    ++back_;
    pass(of(true));
  }

  // Whether payload from the side that dialled has arrived.
  bool send(std::uint32_t bytes, Instant now = {}) {
    TcpSegment segment = of(true);
    segment.payload_bytes = bytes;
    next_ += bytes;
    return pass(segment, now);
  }
  void lose(std::uint32_t bytes) {
    TcpSegment segment = of(true);
    segment.payload_bytes = bytes;
    next_ += bytes;
    out.clear();
    EXPECT_TRUE(connections_.on_sent(segment, {}, out));
  }
  bool pass(const TcpSegment& segment, Instant now = {}) {
    out.clear();
    return connections_.on_sent(segment, now, out) && connections_.on_arrived(segment, now, out);
  }
  [[nodiscard]] TcpSegment of(bool forth) const {
    TcpSegment segment;
    segment.from = forth ? from_ : to_;
    segment.to = forth ? to_ : from_;
    segment.sequence = forth ? next_ : back_;
    segment.acknowledged = forth ? back_ : next_;
    segment.ack = true;
    return segment;
  }
  [[nodiscard]] std::uint32_t next() const { return next_; }
  [[nodiscard]] std::uint32_t back() const { return back_; }

  ResetsFor out;  // of the last packet

 private:
  Connections& connections_;
  Endpoint from_;
  Endpoint to_;
  std::uint32_t next_;
  std::uint32_t back_ = 77;
};

TcpSegment told(const ResetFor& reset) { return *tcp_segment_of(reset.packet); }

TEST(WanConnections, BothEndsAreToldWithTheNumbersThatTheyExpect) {
  Connections connections;
  Talk talk(connections, 1, 2, 33'000, 0xfffffff0);  // numbers wrap
  talk.send(1000);
  ResetsFor out;
  connections.reset(2, 1, Instant{5}, out);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].host, 1U);
  EXPECT_EQ(told(out[0]).sequence, talk.back());
  EXPECT_EQ(told(out[0]).from.port, 4000);
  EXPECT_EQ(out[1].host, 2U);
  EXPECT_EQ(told(out[1]).sequence, talk.next());
  EXPECT_EQ(told(out[1]).to.port, 4000);
  const ResetRecord& record = connections.resets().at(0);
  EXPECT_TRUE(record.hit);
  EXPECT_EQ(record.at, Instant{5});
  EXPECT_EQ(record.port_a, 4000);  // of the host that was named first
  EXPECT_EQ(record.port_b, 33'000);
  EXPECT_EQ(record.carried, 1000U);
}

TEST(WanConnections, AnEndExpectsTheFirstByteThatItLacksUntilItComes) {
  Connections connections;
  Talk talk(connections, 1, 2, 33'000);
  talk.send(500);
  TcpSegment again = talk.of(true);
  again.payload_bytes = 300;
  const std::uint32_t gap = talk.next();
  talk.lose(300);
  talk.send(200);
  talk.send(100);
  Connections filled = connections;
  ResetsFor out;
  connections.reset(1, 2, {}, out);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(told(out[1]).sequence, gap);
  out.clear();
  filled.on_arrived(again, {}, out);
  filled.reset(1, 2, {}, out);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(told(out[1]).sequence, talk.next());
}

TEST(WanConnections, NothingOfOneThatWasResetPassesAndWhoSpeaksIsToldAgain) {
  Connections connections;
  Talk talk(connections, 1, 2, 33'000);
  talk.send(1000);
  TcpSegment under_way = talk.of(true);
  under_way.payload_bytes = 10;
  ResetsFor out;
  EXPECT_TRUE(connections.on_sent(under_way, {}, out));
  connections.reset(1, 2, {}, out);
  EXPECT_FALSE(connections.on_arrived(under_way, {}, out));
  EXPECT_FALSE(talk.send(10));
  ASSERT_EQ(talk.out.size(), 1U);
  EXPECT_EQ(talk.out[0].host, 1U);
  EXPECT_EQ(told(talk.out[0]).sequence, talk.back());
  EXPECT_FALSE(connections.resets()[0].answered_late);
  EXPECT_FALSE(talk.send(10, Instant{} + milliseconds(100)));
  EXPECT_TRUE(connections.resets()[0].answered_late);
  TcpSegment gone = talk.of(true);  // a reset is not answered
  gone.rst = true;
  EXPECT_FALSE(talk.pass(gone));
  EXPECT_TRUE(talk.out.empty());
  Talk fresh(connections, 1, 2, 33'000);  // the same ports
  EXPECT_TRUE(fresh.send(10));
}

TEST(WanConnections, TheOneThatCarriedMostLatelyIsReset) {
  Connections connections;
  const auto at = [](std::int64_t ms) { return Instant{} + milliseconds(ms); };
  Talk old(connections, 1, 2, 33'001);
  Talk little(connections, 1, 2, 33'002);
  Talk busy(connections, 2, 1, 33'003);
  Talk elsewhere(connections, 1, 3, 33'004);
  for (int i = 0; i < 100; ++i) old.send(1000, at(0));
  little.send(1000, at(2000));
  busy.send(1200, at(2000));
  elsewhere.send(60'000, at(2000));
  ResetsFor out;
  for (int i = 0; i < 3; ++i) connections.reset(1, 2, at(2000), out);
  ASSERT_EQ(connections.resets().size(), 3U);
  EXPECT_EQ(connections.resets()[0].port_b, 33'003);
  EXPECT_EQ(connections.resets()[1].port_a, 33'002);
  EXPECT_FALSE(connections.resets()[2].hit);  // what the first carried is long ago
  EXPECT_EQ(out.size(), 4U);
}

TEST(WanConnections, OneThatHasEndedIsNotReset) {
  Connections connections;
  Talk talk(connections, 1, 2, 33'000);
  talk.send(1000);
  for (const bool forth : {true, false}) {
    TcpSegment fin = talk.of(forth);
    fin.fin = true;
    EXPECT_TRUE(talk.pass(fin));
  }
  Talk other(connections, 1, 2, 33'001);
  other.send(1000);
  TcpSegment rst = other.of(false);
  rst.rst = true;
  EXPECT_TRUE(other.pass(rst));
  ResetsFor out;
  connections.reset(1, 2, {}, out);
  EXPECT_TRUE(out.empty());
  EXPECT_FALSE(connections.resets().at(0).hit);
}

TEST(WanConnections, AResetWaitsUntilTheWayHasCarriedEnough) {
  Connections connections;
  Talk forth(connections, 1, 2, 33'000);
  Talk back(connections, 2, 1, 33'001);
  forth.send(100);
  connections.reset_after(1, 2, 1000);
  connections.reset_after(1, 2, 5000);
  back.send(4000);  // the other way
  EXPECT_TRUE(forth.send(999));
  EXPECT_TRUE(forth.out.empty());
  EXPECT_EQ(connections.carried(1, 2), 1099U);
  EXPECT_TRUE(forth.send(1));  // it arrives, and then the busiest is reset
  EXPECT_EQ(forth.out.size(), 2U);
  EXPECT_EQ(connections.resets().size(), 1U);
  connections.forget_orders();
  EXPECT_TRUE(forth.send(9000));
  EXPECT_EQ(connections.resets().size(), 1U);
}

TEST(WanConnections, AStreamIsBackWhenANewConnectionHasCarriedData) {
  Connections connections;
  Talk first(connections, 1, 2, 33'000);
  Talk second(connections, 1, 2, 33'001);
  first.send(9000);
  second.send(5000);
  ResetsFor out;
  connections.reset(1, 2, {}, out);
  second.send(9000, Instant{1});
  EXPECT_FALSE(connections.resets()[0].back);
  Talk third(connections, 1, 2, 33'002);
  third.send(200, Instant{2});  // a greeting
  EXPECT_FALSE(connections.resets()[0].back);
  third.send(9000, Instant{3});
  EXPECT_EQ(connections.resets()[0].back, Instant{3});
}

}  // namespace
}  // namespace lockstep::wan
