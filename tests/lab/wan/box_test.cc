// A WAN in a box, with real sockets in it.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/lab/wan/wan_box.h"
#include "tests/support/process.h"

namespace lockstep::wan {
namespace {

using testing::monotonic_now;

// A socket on a host, bound to its port.
File socket_on(const Box& box, std::uint32_t host, int type) {
  return box.host(host).within([&] {
    File file(::socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_in own = endpoint(host);
    EXPECT_EQ(::bind(file.number(), raw(own), sizeof own), 0) << std::strerror(errno);
    return file;
  });
}

bool comes(const File& file, short what = POLLIN) {
  pollfd place{file.number(), what, 0};
  return ::poll(&place, 1, kLongMs) == 1;
}

void send_to(const File& from, std::uint32_t host, char byte) {
  const sockaddr_in to = endpoint(host);
  EXPECT_EQ(::sendto(from.number(), &byte, 1, 0, raw(to), sizeof to), 1) << std::strerror(errno);
}

// The next datagram's byte; 0: none came.
char heard(const File& file) {
  char byte = 0;
  if (!comes(file) || ::recv(file.number(), &byte, 1, 0) != 1) return 0;
  return byte;
}

TEST_F(WanBox, ADatagramThereAndBackTakesTheLatencyOfBothWays) {
  if (!make(R"(peers = 2
    link = [{ between = "a -> b", latency = "20ms" }, { between = "b -> a", latency = "40ms" }])"))
    return;
  const File a = socket_on(*box, 1, SOCK_DGRAM);
  const File b = socket_on(*box, 2, SOCK_DGRAM);
  Duration least = seconds(1000);
  for (char round = 1; round <= 5; ++round) {
    const Instant start = monotonic_now();
    send_to(a, 2, round);
    ASSERT_EQ(heard(b), round);
    send_to(b, 1, round);
    ASSERT_EQ(heard(a), round);
    least = std::min(least, monotonic_now() - start);
  }
  EXPECT_GE(least, milliseconds(60));
  EXPECT_LT(least, milliseconds(120));
}

TEST_F(WanBox, AStreamGetsTheRate) {
  if (!make("peers = 2\nnet = { latency = \"2ms\", up = \"40Mbit/s\" }")) return;
  constexpr std::size_t kBytes = 2'000'000;  // 0.4 s
  const File listener = socket_on(*box, 1, SOCK_STREAM);
  ASSERT_EQ(::listen(listener.number(), 1), 0);
  const File sender = socket_on(*box, 2, SOCK_STREAM);
  const sockaddr_in to = endpoint(1);
  const Instant start = monotonic_now();
  ASSERT_TRUE(::connect(sender.number(), raw(to), sizeof to) == 0 || errno == EINPROGRESS) << std::strerror(errno);
  ASSERT_TRUE(comes(listener));
  const File receiver(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  ASSERT_TRUE(comes(sender, POLLOUT));

  std::vector<char> piece(1 << 16);
  std::size_t sent = 0;
  std::size_t got = 0;
  while (got < kBytes) {
    const short wanted = sent < kBytes ? POLLOUT : 0;
    std::array<pollfd, 2> places{{{receiver.number(), POLLIN, 0}, {sender.number(), wanted, 0}}};
    ASSERT_GT(::poll(places.data(), places.size(), kLongMs), 0) << "after " << got << " bytes";
    if (places[0].revents != 0) {
      const ssize_t n = ::recv(receiver.number(), piece.data(), piece.size(), 0);
      ASSERT_GT(n, 0);
      got += static_cast<std::size_t>(n);
    }
    if (places[1].revents != 0) {
      const ssize_t n = ::send(sender.number(), piece.data(), std::min(piece.size(), kBytes - sent), MSG_NOSIGNAL);
      ASSERT_GT(n, 0);
      sent += static_cast<std::size_t>(n);
    }
  }
  const double bit_per_s = static_cast<double>(got) * 8 / (monotonic_now() - start).seconds();
  EXPECT_LT(bit_per_s, 40e6);
  EXPECT_GT(bit_per_s, 15e6);
}

TEST_F(WanBox, ACutStopsOneWayAndHealingMendsIt) {
  if (!make("peers = 2")) return;
  const File a = socket_on(*box, 1, SOCK_DGRAM);
  const File b = socket_on(*box, 2, SOCK_DGRAM);
  box->cut(1, 2);
  send_to(a, 2, 1);
  box->forwarder().wait_until([](const Network& network) { return network.counts(1, 2).cut == 1; });
  send_to(b, 1, 2);
  EXPECT_EQ(heard(a), 2);
  box->heal(1, 2);
  send_to(a, 2, 3);
  EXPECT_EQ(heard(b), 3);  // the first never comes
}

TEST_F(WanBox, AHostThatIsShutOpensStreamsAndGetsNone) {
  if (!make("peers = 2\n[[do]]\nshut = \"a\"")) return;
  const auto connects = [&](std::uint32_t from, std::uint32_t to) {
    const File listener = socket_on(*box, to, SOCK_STREAM);
    EXPECT_EQ(::listen(listener.number(), 1), 0);
    const File sender = socket_on(*box, from, SOCK_STREAM);
    const sockaddr_in there = endpoint(to);
    EXPECT_TRUE(::connect(sender.number(), raw(there), sizeof there) == 0 || errno == EINPROGRESS);
    // A packet of another protocol comes after the one that was dropped: nothing is waited for.
    const File teller = socket_on(*box, from, SOCK_DGRAM);
    const File hearer = socket_on(*box, to, SOCK_DGRAM);
    send_to(teller, to, 1);
    EXPECT_EQ(heard(hearer), 1);
    pollfd place{listener.number(), POLLIN, 0};
    return ::poll(&place, 1, 0) == 1;
  };
  EXPECT_FALSE(connects(2, 1));
  EXPECT_TRUE(connects(1, 2));
}

TEST_F(WanBox, LargePacketsPassWhole) {
  if (!make("peers = 2\nmtu = 65000")) return;
  const File a = socket_on(*box, 1, SOCK_DGRAM);
  const File b = socket_on(*box, 2, SOCK_DGRAM);
  std::vector<char> bytes(64'900);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  const sockaddr_in to = endpoint(2);
  ASSERT_EQ(::sendto(a.number(), bytes.data(), bytes.size(), 0, raw(to), sizeof to), 64'900) << std::strerror(errno);
  ASSERT_TRUE(comes(b));
  std::vector<char> got(bytes.size() + 1);
  ASSERT_EQ(::recv(b.number(), got.data(), got.size(), 0), 64'900);
  got.pop_back();
  EXPECT_EQ(got, bytes);
  EXPECT_EQ(box->forwarder().with_network([](const Network& n) { return n.counts(1, 2).packets; }), 1U);
}

TEST_F(WanBox, HostsDoNotHearThisMachine) {
  if (!make("peers = 2")) return;
  const File here(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const sockaddr_in own = endpoint(1);
  EXPECT_NE(::bind(here.number(), raw(own), sizeof own), 0) << "this machine has " << address_of(1);
}

std::ptrdiff_t entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

// Namespaces and devices live as long as their files. The first box may leave what libraries keep for good.
TEST_F(WanBox, LeavesNoFileAndNoThread) {
  if (!make("peers = 3")) return;
  box.reset();
  const auto files = entries("/proc/self/fd");
  const auto threads = entries("/proc/self/task");
  if (!make("peers = 3")) return;
  EXPECT_GT(entries("/proc/self/fd"), files);
  EXPECT_EQ(entries("/proc/self/task"), threads + 1);
  box.reset();
  EXPECT_EQ(entries("/proc/self/fd"), files);
  EXPECT_EQ(entries("/proc/self/task"), threads);
}

}  // namespace
}  // namespace lockstep::wan
