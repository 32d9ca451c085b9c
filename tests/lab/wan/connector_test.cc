// The options that the connector sets on a stream depend on its path: only a long path shows the difference.
#include "transport/connector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <asio/io_context.hpp>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tests/lab/wan/net_space.h"
#include "tests/lab/wan/wan_box.h"
#include "transport/address.h"

namespace {
// What this thread's system answers to a program that asks for BBR; 0: as it is.
thread_local int bbr_error = 0;
}  // namespace

// In place of the C library's function: a kernel without BBR, or one that restricts it.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the C library's names are reserved
extern "C" int setsockopt(int socket, int level, int option, const void* value, socklen_t size) noexcept {
  if (bbr_error != 0 && level == IPPROTO_TCP && option == TCP_CONGESTION &&
      std::string_view(static_cast<const char*>(value), size) == "bbr") {
    errno = bbr_error;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_setsockopt, socket, level, option, value, size));
}

namespace lockstep::wan {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
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

// Makes `control` the default of the network that this thread is in. False: the kernel lacks it, or restricts it.
bool set_default(std::string_view control) {
  std::ofstream setting("/proc/sys/net/ipv4/tcp_congestion_control");
  return static_cast<bool>(setting << control << std::flush);
}

bool has_bbr() {
  std::ifstream setting("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  for (std::string control; setting >> control;) {
    if (control == "bbr") return true;
  }
  return false;
}

// A stream between two connectors.
struct Stream {
  explicit Stream(const Connector::Options& of_both = {}, const transport::Log& log = {})
      : listens(io, of_both, log), dials(io, of_both, log) {
    for (Connector* const each : {&listens, &dials}) each->secure({nullptr, true});
  }

  // `listener` and `dialler` call what they are given, where that end is.
  template <typename Listener, typename Dialler>
  void connect(const std::string& address, Listener listener, Dialler dialler) {
    transport::ListenPlan plan;
    plan.hosts.push_back(transport::to_address({asio::ip::make_address(address), 0}));
    const auto at = listener([&] {
      return listens.listen(plan, [&](Socket socket, const io::Address&, const Connector::Opened& opened) {
        accepted = std::move(socket);
        accepted_path = opened.path;
      });
    });
    ASSERT_TRUE(at.ok());
    bool open = false;
    dialler([&] {
      dials.dial(dialled, {StreamId{2}, *at},
                 [&](const std::optional<Connector::Failure>& failure, const Connector::Opened& opened) {
                   EXPECT_FALSE(failure) << failure->text;
                   dialled_path = opened.path;
                   open = true;
                 });
    });
    while (!open || !accepted) io.run_one();
  }

  // Both ends have this congestion control, and both connectors report it.
  void expect_congestion_control(const ::testing::Matcher<std::string>& control) {
    EXPECT_THAT(congestion_control_of(dialled), control);
    EXPECT_THAT(congestion_control_of(*accepted), control);
    EXPECT_EQ(dialled_path.congestion_control, congestion_control_of(dialled));
    EXPECT_EQ(accepted_path.congestion_control, congestion_control_of(*accepted));
  }

  asio::io_context io;
  Connector listens;
  Connector dials;
  Socket dialled{io};
  std::optional<Socket> accepted;
  Connector::Path dialled_path;
  Connector::Path accepted_path;
};

TEST_F(WanBox, ALongPathIsPacedAtBothEnds) {
  if (!make("peers = 2\nnet = { latency = \"10ms\" }")) return;
  Stream stream;
  stream.connect(
      address_of(1), [&](auto body) { return box->host(1).within(body); },
      [&](auto body) { box->host(2).within(body); });
  EXPECT_TRUE(is_paced(stream.dialled));
  EXPECT_TRUE(is_paced(*stream.accepted));
  EXPECT_GE(stream.dialled_path.round_trip, milliseconds(20));
  EXPECT_GE(stream.accepted_path.round_trip, milliseconds(20));
}

TEST(Connector, LoopbackIsNotPaced) {
  Stream stream;
  stream.connect(
      "127.0.0.1", [](auto body) { return body(); }, [](auto body) { body(); });
  EXPECT_FALSE(is_paced(stream.dialled));
  EXPECT_FALSE(is_paced(*stream.accepted));
}

// A stream between two hosts that are far from each other.
class FarConnector : public WanBox {
 protected:
  // False: the test is over. `control`: the default of both hosts.
  bool make_hosts(std::string_view control) {
    if (!make("peers = 2\nnet = { latency = \"10ms\" }")) return false;
    return set_default_of_hosts(control);
  }

  void connect(Stream& stream) {
    stream.connect(
        address_of(1), [&](auto body) { return box->host(1).within(body); },
        [&](auto body) { box->host(2).within(body); });
  }

 private:
  bool set_default_of_hosts(std::string_view control) {
    for (const std::uint32_t peer : {1U, 2U}) {
      if (box->host(peer).within([&] { return set_default(control); })) continue;
      skip(std::string(control) + " cannot be the default here: see tcp_allowed_congestion_control");
      return false;
    }
    return true;
  }
  static void skip(const std::string& why) { GTEST_SKIP() << why; }
};

// The system refuses BBR to this thread, with this error.
class BbrRefused {
 public:
  explicit BbrRefused(int error) { bbr_error = error; }
  ~BbrRefused() { bbr_error = 0; }
  BbrRefused(const BbrRefused&) = delete;
  BbrRefused& operator=(const BbrRefused&) = delete;
};

TEST_F(FarConnector, UsesBbrAtBothEndsWhereTheSystemAllowsIt) {
  if (!has_bbr()) GTEST_SKIP() << "programs may not use bbr here: see tcp_allowed_congestion_control";
  if (!make_hosts("reno")) return;
  std::vector<std::string> lines;
  Stream stream({}, [&](std::string_view line) { lines.emplace_back(line); });
  connect(stream);
  stream.expect_congestion_control("bbr");
  const std::string line = "congestion control of far streams (round trips of 1 ms or more): bbr";
  EXPECT_THAT(lines, ElementsAre(line, line));  // a line of each connector
}

TEST_F(FarConnector, KeepsBbrWhereItIsTheDefault) {
  if (!make_hosts("bbr")) return;
  Stream stream;
  connect(stream);
  stream.expect_congestion_control("bbr");
}

TEST_F(FarConnector, UsesWhatTheProgramAskedFor) {
  if (!has_bbr()) GTEST_SKIP() << "programs may not use bbr here: see tcp_allowed_congestion_control";
  if (!make_hosts("bbr")) return;
  Stream stream({.congestion_control = "reno"});
  connect(stream);
  stream.expect_congestion_control("reno");
}

TEST_F(FarConnector, KeepsTheDefaultWhereBbrIsRefusedAndAdvisesOnceAProcess) {
  if (!make_hosts("reno")) return;
  const BbrRefused refused(ENOENT);
  static std::vector<std::string> advice;  // of the process, which may repeat the test
  const auto log = [](std::string_view line) {
    if (line.starts_with("BBR")) advice.emplace_back(line);
  };
  for (int i = 0; i < 2; ++i) {
    Stream stream({}, log);
    connect(stream);
    stream.expect_congestion_control("reno");
  }
  EXPECT_THAT(advice, ElementsAre("BBR is not available (No such file or directory): streams to far peers use reno, "
                                  "which every lost packet slows down; run `modprobe tcp_bbr` as root on this host"));
}

TEST(BbrAdvice, NamesTheRemedyForTheCause) {
  const std::error_code restricted{EPERM, std::system_category()};
  EXPECT_EQ(transport::bbr_advice(restricted, "cubic", "reno cubic"),
            "BBR is not available (Operation not permitted): streams to far peers use cubic, which every lost packet "
            "slows down; run `sysctl -w net.ipv4.tcp_allowed_congestion_control=\"reno cubic bbr\"` as root on this "
            "host");
  const std::string by_route = transport::bbr_advice(restricted, "cubic", "reno cubic bbr");
  EXPECT_THAT(by_route, EndsWith("; see \"Far peers\" in docs/operations.md"));
}

// A stream on the loopback of a network of its own.
class ConnectorOnLoopback : public ::testing::Test {
 protected:
  // `control`: the default of the network.
  void connect(Stream& stream, std::string_view control) {
    const auto space = NetSpace::make();
    if (!space && space.error().status == Status::kRefused) GTEST_SKIP() << space.error().text;
    ASSERT_TRUE(space) << space.error().text;
    if (!space->within([&] { return set_default(control); })) {
      GTEST_SKIP() << control << " cannot be the default here: see tcp_allowed_congestion_control";
    }
    const auto inside = [&](auto body) { return space->within(body); };
    stream.connect("127.0.0.1", inside, inside);
  }
};

TEST_F(ConnectorOnLoopback, AShortPathIsNotLeftToBbr) {
  Stream stream;
  connect(stream, "bbr");
  if (stream.accepted) stream.expect_congestion_control(AnyOf("cubic", "reno"));
}

TEST_F(ConnectorOnLoopback, AShortPathKeepsADefaultOtherThanBbr) {
  std::vector<std::string> lines;
  Stream stream({}, [&](std::string_view line) { lines.emplace_back(line); });
  connect(stream, "reno");
  if (!stream.accepted) return;
  stream.expect_congestion_control("reno");
  EXPECT_THAT(lines, ElementsAre());
}

TEST_F(ConnectorOnLoopback, WhatTheProgramAskedForIsLeftAsItIs) {
  Stream stream({.congestion_control = "bbr"});
  connect(stream, "bbr");
  if (stream.accepted) stream.expect_congestion_control("bbr");
}

}  // namespace
}  // namespace lockstep::wan
