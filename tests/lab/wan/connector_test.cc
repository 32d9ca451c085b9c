// The options that the connector sets on a stream depend on its path: only a long path shows the difference.
#include "transport/connector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <asio/io_context.hpp>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "tests/lab/wan/net_space.h"
#include "tests/lab/wan/wan_box.h"
#include "transport/address.h"

namespace lockstep::wan {
namespace {

using transport::Connector;
using transport::Socket;

bool is_paced(Socket& socket) {
  std::uint64_t most = 0;
  socklen_t size = sizeof most;
  EXPECT_EQ(::getsockopt(socket.native_handle(), SOL_SOCKET, SO_MAX_PACING_RATE, &most, &size), 0);
  return most != UINT64_MAX;
}

std::string congestion_control_of(Socket& socket) {
  std::array<char, 16> name{};
  socklen_t size = name.size();
  EXPECT_EQ(::getsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &size), 0);
  return name.data();
}

// Makes BBR the default of the network that this thread is in. False: there is none to be had.
bool prefer_bbr() {
  std::ofstream setting("/proc/sys/net/ipv4/tcp_congestion_control");
  return static_cast<bool>(setting << "bbr" << std::flush);
}

// A stream between two connectors.
struct Stream {
  explicit Stream(const Connector::Options& of_both = {}) : listens(io, of_both, {}), dials(io, of_both, {}) {}

  // `listener` and `dialler` call what they are given, where that end is.
  template <typename Listener, typename Dialler>
  void connect(const std::string& address, Listener listener, Dialler dialler) {
    transport::ListenPlan plan;
    plan.hosts.push_back(transport::to_address({asio::ip::make_address(address), 0}));
    const auto at = listener(
        [&] { return listens.listen(plan, [&](Socket socket, const io::Address&) { accepted = std::move(socket); }); });
    ASSERT_TRUE(at.ok());
    bool open = false;
    dialler([&] {
      dials.dial(dialled, *at, [&](std::error_code error, Duration measured) {
        EXPECT_FALSE(error) << error.message();
        round_trip = measured;
        open = true;
      });
    });
    while (!open || !accepted) io.run_one();
  }

  asio::io_context io;
  Connector listens;
  Connector dials;
  Socket dialled{io};
  std::optional<Socket> accepted;
  Duration round_trip;  // as the dialling end was told
};

TEST_F(WanBox, ALongPathIsPacedAtBothEnds) {
  if (!make("peers = 2\nnet = { latency = \"10ms\" }")) return;
  Stream stream;
  stream.connect(
      address_of(1), [&](auto body) { return box->host(1).within(body); },
      [&](auto body) { box->host(2).within(body); });
  EXPECT_TRUE(is_paced(stream.dialled));
  EXPECT_TRUE(is_paced(*stream.accepted));
  EXPECT_GE(stream.round_trip, milliseconds(20));
}

TEST(Connector, LoopbackIsNotPaced) {
  Stream stream;
  stream.connect(
      "127.0.0.1", [](auto body) { return body(); }, [](auto body) { body(); });
  EXPECT_FALSE(is_paced(stream.dialled));
  EXPECT_FALSE(is_paced(*stream.accepted));
}

TEST_F(WanBox, ALongPathKeepsTheSystemsCongestionControl) {
  if (!make("peers = 2\nnet = { latency = \"10ms\" }")) return;
  for (const std::uint32_t peer : {1U, 2U}) {
    if (!box->host(peer).within(prefer_bbr)) GTEST_SKIP() << "this kernel has no BBR";
  }
  Stream stream;
  stream.connect(
      address_of(1), [&](auto body) { return box->host(1).within(body); },
      [&](auto body) { box->host(2).within(body); });
  EXPECT_EQ(congestion_control_of(stream.dialled), "bbr");
  EXPECT_EQ(congestion_control_of(*stream.accepted), "bbr");
}

// A stream on the loopback of a network of its own, where BBR is the default.
class ConnectorOnLoopback : public ::testing::Test {
 protected:
  void connect(Stream& stream) {
    const auto space = NetSpace::make();
    if (!space && space.error().status == Status::kRefused) GTEST_SKIP() << space.error().text;
    ASSERT_TRUE(space) << space.error().text;
    if (!space->within(prefer_bbr)) GTEST_SKIP() << "this kernel has no BBR";
    const auto inside = [&](auto body) { return space->within(body); };
    stream.connect("127.0.0.1", inside, inside);
  }
};

TEST_F(ConnectorOnLoopback, AShortPathIsNotLeftToBbr) {
  Stream stream;
  connect(stream);
  if (!stream.accepted) return;
  for (Socket* end : {&stream.dialled, &*stream.accepted}) {
    EXPECT_THAT(congestion_control_of(*end), ::testing::AnyOf("cubic", "reno"));
  }
}

TEST_F(ConnectorOnLoopback, WhatTheProgramAskedForIsLeftAsItIs) {
  Stream stream({.congestion_control = "bbr"});
  connect(stream);
  if (!stream.accepted) return;
  EXPECT_EQ(congestion_control_of(stream.dialled), "bbr");
  EXPECT_EQ(congestion_control_of(*stream.accepted), "bbr");
}

}  // namespace
}  // namespace lockstep::wan
