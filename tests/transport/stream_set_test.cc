// Streams on real sockets: effects in, inputs out.
#include "transport/stream_set.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/rng.h"
#include "tests/support/sanitized.h"
#include "tests/transport/loopback.h"
#include "transport/unsent_limit.h"

namespace lockstep::transport {
namespace {

// Every law of streams holds for plain ones, and under TLS with keys that change all the time.
class Streams : public Loopback, public ::testing::WithParamInterface<bool> {
 protected:
  Streams() {
    if (GetParam()) secure(50'000);
  }
};
INSTANTIATE_TEST_SUITE_P(Streams, Streams, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "Tls" : "Plain"; });

TEST_P(Streams, AcceptedStreamsHaveOddIdsAndASourceAddress) {
  connect();
  EXPECT_EQ(at_b.value % 2, 1U);
  EXPECT_EQ(b.last<io::Accepted>().from.family, io::Address::Family::kV4);
  EXPECT_NE(b.last<io::Accepted>().from.port, 0);
  EXPECT_EQ(a.streams.size(), 1U);
}

TEST_P(Streams, WorksOverIPv6) {
  asio::ip::tcp::acceptor probe(io);
  std::error_code none;
  probe.open(asio::ip::tcp::v6(), none);
  if (!none) probe.bind({asio::ip::address_v6::loopback(), 0}, none);
  if (none) GTEST_SKIP() << "no IPv6 here: " << none.message();
  connect(loopback_v6);
  EXPECT_EQ(b.last<io::Accepted>().from.family, io::Address::Family::kV6);
}

TEST_P(Streams, ListeningOnAllAddressesReportsIPv4AsIPv4) {
  const auto bound = b.streams.listen({});
  ASSERT_TRUE(bound.ok()) << bound.error().text;
  a.streams.carry_out(io::Dial{a.names.next(), loopback_v4(bound->port), true});
  run_until([&] { return b.saw<io::Accepted>(); });
  EXPECT_EQ(b.last<io::Accepted>().from.family, io::Address::Family::kV4);
}

TEST(UnsentLimit, IsAsLargeAsTheWindowIs) {
  asio::io_context io;
  asio::ip::tcp::socket socket(io, asio::ip::tcp::v4());
  const int handle = socket.native_handle();
  const auto limit = [&] {
    int bytes = 0;
    socklen_t size = sizeof bytes;
    EXPECT_EQ(::getsockopt(handle, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, &size), 0);
    return bytes;
  };
  const auto window_of = [](std::uint32_t packets) {
    tcp_info info{};
    info.tcpi_snd_mss = 1024;
    info.tcpi_snd_cwnd = packets;
    return info;
  };
  const int none = limit();
  UnsentLimit unsent;
  unsent.suit_to(handle, window_of(10));
  EXPECT_EQ(limit(), none) << "a near path has no limit";
  unsent.begin(handle);
  EXPECT_EQ(limit(), UnsentLimit::kMost);
  for (const auto& [packets, expected] :
       {std::pair(10U, UnsentLimit::kLeast), std::pair(64U, UnsentLimit::kLeast), std::pair(128U, UnsentLimit::kMost),
        std::pair(64U, UnsentLimit::kMost), std::pair(32U, UnsentLimit::kLeast)}) {
    unsent.suit_to(handle, window_of(packets));
    EXPECT_EQ(limit(), expected) << packets;
  }
}

// Law: however writes and reads are split, the same bytes arrive in the same order, in the place before the tail.
TEST_P(Streams, BytesKeepTheirOrderHoweverTheyAreSplit) {
  connect();
  constexpr std::size_t kBytes = 3'000'017;
  std::vector<std::byte> sent(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) sent[i] = static_cast<std::byte>(draw(1, 2, i) & 0xffU);
  std::vector<std::byte> received(kBytes);
  const BufferId from = a.memory.add(sent);
  const BufferId into = b.memory.add(received);
  std::size_t written = 0;
  std::size_t landed = 0;
  std::array<std::byte, 999> tail{};
  std::size_t place_bytes = 0;

  const auto write = [&] {
    io::Write effect{at_a, {}};
    std::size_t at = written;
    for (std::uint64_t i = 0; i < io::SliceList::kCapacity && at < kBytes; ++i) {
      const std::size_t size = std::min<std::size_t>(1 + below(draw(3, 4, at, i), 30'000), kBytes - at);
      if (i % 2 == 0) {
        effect.slices.push({{}, {from, at, size}});
      } else {
        effect.slices.push({std::span(sent).subspan(at, size), {}});
      }
      at += size;
    }
    a.streams.carry_out(effect);
  };
  const auto read = [&] {
    place_bytes = std::min<std::size_t>(below(draw(5, 6, landed), 50'000), kBytes - landed);
    b.streams.carry_out(io::Read{at_b, {into, landed, place_bytes}, tail});
  };
  a.on_input = [&](io::Input& input) {
    if (const auto* done = std::get_if<io::WriteDone>(&input)) {
      EXPECT_GT(done->bytes, 0U);
      written += done->bytes;
      if (written < kBytes) write();
    }
  };
  b.on_input = [&](io::Input& input) {
    if (const auto* done = std::get_if<io::ReadDone>(&input)) {
      EXPECT_GT(done->bytes, 0U);
      if (done->bytes > place_bytes) {
        std::copy_n(tail.begin(), done->bytes - place_bytes,
                    received.begin() + static_cast<std::ptrdiff_t>(landed + place_bytes));
      }
      landed += done->bytes;
      if (landed < kBytes) read();
    }
  };
  write();
  read();
  run_until([&] { return landed == kBytes; });
  EXPECT_EQ(received, sent);
  EXPECT_EQ(a.streams.bytes_written(), kBytes);
  EXPECT_EQ(b.streams.bytes_read(), kBytes);
}

TEST_P(Streams, ARevokedReadIsAnsweredAtOnceAndNothingLandsAfterwards) {
  connect();
  std::array<std::byte, 8> first{};
  b.streams.carry_out(io::Read{at_b, {}, first});
  pump();
  b.streams.carry_out(io::Revoke{at_b, io::Direction::kRead});
  b.pump();
  EXPECT_EQ(b.last<io::Revoked>().bytes, 0U);
  a.streams.carry_out(write_of(at_a, "payload"));
  run_until([&] { return a.saw<io::WriteDone>(); });
  std::array<std::byte, 8> second{};
  b.streams.carry_out(io::Read{at_b, {}, second});
  run_until([&] { return b.saw<io::ReadDone>(); });
  EXPECT_EQ(b.last<io::ReadDone>().bytes, 7U);
  EXPECT_EQ(first, (std::array<std::byte, 8>{}));
  EXPECT_EQ(std::to_integer<char>(second[0]), 'p');
}

TEST_P(Streams, AReadThatEndedBeforeItsRevocationIsReportedFirst) {
  connect();
  a.streams.carry_out(write_of(at_a, "x"));
  run_until([&] { return a.saw<io::WriteDone>(); });
  std::array<std::byte, 8> into{};
  b.streams.carry_out(io::Read{at_b, {}, into});
  while (b.streams.advance()) {
  }
  b.streams.carry_out(io::Revoke{at_b, io::Direction::kRead});
  run_until([&] { return b.saw<io::Revoked>(); });
  ASSERT_TRUE(b.saw<io::ReadDone>());
  EXPECT_TRUE(std::holds_alternative<io::Revoked>(b.seen.back()));
}

TEST_P(Streams, ARevokedWriteSendsNothingMore) {
  connect();
  const std::string much(64U << 20U, 'm');  // more than the sockets hold
  std::size_t taken = 0;
  a.on_input = [&](io::Input& input) {
    if (const auto* done = std::get_if<io::WriteDone>(&input)) {
      taken += done->bytes;
      a.streams.carry_out(write_of(at_a, std::string_view(much).substr(taken)));
    }
  };
  a.streams.carry_out(write_of(at_a, much));
  pump();  // until the socket is full
  a.streams.carry_out(io::Revoke{at_a, io::Direction::kWrite});
  a.pump();
  ASSERT_TRUE(a.saw<io::Revoked>());
  ASSERT_LT(taken, much.size());
  a.on_input = nullptr;
  a.streams.carry_out(io::Close{at_a, true});
  EXPECT_EQ(read_to_the_end(b, at_b).size(), taken);
}

TEST_P(Streams, AnOrderlyCloseDeliversAllBytesDespiteUnreadOnes) {
  connect();
  const std::string unread(100'000, 'u');  // a never reads these bytes
  b.streams.carry_out(write_of(at_b, unread));
  run_until([&] { return b.saw<io::WriteDone>(); });
  a.streams.carry_out(write_of(at_a, "last words"));
  run_until([&] { return a.saw<io::WriteDone>(); });
  a.streams.carry_out(io::Close{at_a, true});
  a.pump();
  EXPECT_EQ(a.last<io::Closed>().reason, io::CloseReason::kAsked);
  EXPECT_EQ(read_to_the_end(b, at_b), "last words");
  EXPECT_EQ(b.last<io::Closed>().reason, io::CloseReason::kEnd);
  run_until([&] { return a.streams.size() == 0; });  // the graceful close has ended, too
}

TEST_P(Streams, AnAbruptEndIsSeenAsAReset) {
  connect();
  a.streams.carry_out(io::Close{at_a, false});
  a.pump();
  EXPECT_EQ(a.last<io::Closed>().reason, io::CloseReason::kAsked);
  EXPECT_EQ(read_to_the_end(b, at_b), "");
  EXPECT_EQ(b.last<io::Closed>().reason, io::CloseReason::kReset);
}

TEST_P(Streams, ClosedIsTheLastInputAndComesOnce) {
  connect();
  std::array<std::byte, 8> into{};
  a.streams.carry_out(io::Read{at_a, {}, into});
  a.streams.carry_out(io::Close{at_a, false});
  a.streams.carry_out(io::Close{at_a, true});
  a.streams.carry_out(io::Revoke{at_a, io::Direction::kRead});
  pump();
  EXPECT_EQ(a.all<io::Closed>().size(), 1U);
  EXPECT_TRUE(std::holds_alternative<io::Closed>(a.seen.back()));
  EXPECT_EQ(a.streams.size(), 0U);
}

TEST_F(Loopback, BytesReceivedBeforeAResetAreReadBeforeClosed) {
  const auto bound = b.streams.listen({{loopback_v4(0)}, 0, 0});
  ASSERT_TRUE(bound.ok());
  asio::ip::tcp::socket raw(io);
  raw.connect({asio::ip::address_v4::loopback(), bound->port});
  run_until([&] { return b.saw<io::Accepted>(); });
  at_b = b.last<io::Accepted>().stream;
  asio::write(raw, asio::buffer(std::string("bye")));
  raw.set_option(asio::socket_base::linger(true, 0));
  raw.close();

  std::vector<std::byte> into(2);  // reading "bye" takes two reads
  std::string text;
  b.on_input = [&](io::Input& input) {
    if (const auto* done = std::get_if<io::ReadDone>(&input)) {
      text.append(reinterpret_cast<const char*>(into.data()), done->bytes);
      b.streams.carry_out(io::Read{at_b, {}, into});
    }
  };
  b.streams.carry_out(write_of(at_b, "are you there?"));
  b.streams.carry_out(io::Read{at_b, {}, into});
  run_until([&] { return b.saw<io::Closed>(); });
  EXPECT_EQ(text, "bye");
  EXPECT_EQ(b.last<io::Closed>().reason, io::CloseReason::kReset);
}

TEST_P(Streams, DiallingAPortWhereNobodyListensIsRefused) {
  std::uint16_t port = 0;
  {
    Side gone(io);
    const auto bound = gone.streams.listen({{loopback_v4(0)}, 0, 0});
    ASSERT_TRUE(bound.ok());
    port = bound->port;
  }
  a.streams.carry_out(io::Dial{a.names.next(), loopback_v4(port), true});
  run_until([&] { return a.saw<io::Closed>(); });
  EXPECT_EQ(a.last<io::Closed>().reason, io::CloseReason::kRefused);
  EXPECT_FALSE(a.last<io::Closed>().text.empty());
}

TEST_F(Loopback, DiallingWithoutARouteIsUnreachable) {
  io::Address everybody = loopback_v4(9);  // TCP has no broadcast, so the network refuses at once
  everybody.bytes = {255, 255, 255, 255};
  a.streams.secure({nullptr, true});
  for (const io::Address& address : {everybody, io::Address{}}) {
    a.streams.carry_out(io::Dial{a.names.next(), address, true});
  }
  run_until([&] { return a.all<io::Closed>().size() == 2; });
  for (const io::Closed& closed : a.all<io::Closed>()) EXPECT_EQ(closed.reason, io::CloseReason::kUnreachable);
}

TEST_F(Loopback, AStreamThatIsClosedWhileDiallingEnds) {
  const auto bound = b.streams.listen({{loopback_v4(0)}, 0, 0});
  ASSERT_TRUE(bound.ok());
  at_a = a.names.next();
  a.streams.carry_out(io::Dial{at_a, loopback_v4(bound->port), true});
  a.streams.carry_out(io::Close{at_a, true});
  run_until([&] { return b.saw<io::Accepted>(); });
  EXPECT_FALSE(a.saw<io::Opened>());
  EXPECT_EQ(a.all<io::Closed>().size(), 1U);
}

TEST_P(Streams, APortRangeUsesItsFirstFreePortUntilItIsFull) {
  const auto bound = a.streams.listen({{loopback_v4(0)}, 0, 0});
  ASSERT_TRUE(bound.ok());
  Side taken(io);
  const auto full = taken.streams.listen({{loopback_v4(0)}, bound->port, bound->port});
  ASSERT_FALSE(full.ok());
  EXPECT_NE(full.error().text.find(std::to_string(bound->port)), std::string::npos) << full.error().text;
  EXPECT_NE(full.error().text.find("choose another port"), std::string::npos) << full.error().text;

  const std::uint16_t first = std::min<std::uint16_t>(bound->port, 65'435);  // others may hold some of a hundred
  const auto other = b.streams.listen({{loopback_v4(0)}, first, static_cast<std::uint16_t>(first + 100)});
  ASSERT_TRUE(other.ok()) << other.error().text;
  EXPECT_NE(other->port, bound->port);
  EXPECT_GE(other->port, first);
  EXPECT_LE(other->port, first + 100);

  const auto none = taken.streams.listen({{loopback_v4(0)}, first, other->port});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().text.find("any of the ports"), std::string::npos) << none.error().text;
}

TEST_P(Streams, AnAddressOfAnotherMachineCannotBeListenedOn) {
  io::Address documentation = loopback_v4(0);  // an address for documentation (RFC 5737)
  documentation.bytes = {192, 0, 2, 1};
  const auto bound = a.streams.listen({{documentation}, 0, 0});
  ASSERT_FALSE(bound.ok());
  EXPECT_NE(bound.error().text.find("not an address of this machine"), std::string::npos) << bound.error().text;
}

// A program without free descriptors neither uses a whole core nor loses its listener.
TEST_P(Streams, ConnectionsWaitWhileNoDescriptorIsFree) {
  if (kSanitized) GTEST_SKIP() << "the sanitizers need descriptors of their own";
  std::vector<std::string> lines;
  Side host(io, [&](std::string_view line) { lines.emplace_back(line); });
  const auto bound = host.streams.listen({{loopback_v4(0)}, 0, 0});
  ASSERT_TRUE(bound.ok());
  asio::ip::tcp::socket stranger(io);
  stranger.connect({asio::ip::address_v4::loopback(), bound->port});

  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next_free = ::dup(0);
  ASSERT_GE(next_free, 0);
  ::close(next_free);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(next_free);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  run_until([&] { return !lines.empty(); });
  const std::size_t events = io.poll();
  EXPECT_LE(events, 1U);  // it waits instead of retrying
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(lines.front().find("cannot accept"), std::string::npos);
  run_until([&] {
    host.pump();
    return host.saw<io::Accepted>();
  });
  EXPECT_EQ(lines.size(), 1U);
}

TEST_P(Streams, BytesThatArrivedWithAHeaderAreCopiedToTheirPlace) {
  std::string into = "........";
  const BufferId id = a.memory.add(std::as_writable_bytes(std::span(into.data(), into.size())));
  a.streams.carry_out(io::CopyBytes{{id, 2, 4}, bytes_of("abc")});
  EXPECT_EQ(into, "..abc...");
}

TEST_P(Streams, ShuttingDownResetsOpenStreamsAndWaitsForClosingOnes) {
  connect();
  a.streams.carry_out(write_of(at_a, "goodbye"));
  run_until([&] { return a.saw<io::WriteDone>(); });
  a.streams.carry_out(io::Close{at_a, true});
  bool done = false;
  a.streams.shut_down(StreamSet::ClosingStreams::kWait, [&] { done = true; });
  EXPECT_FALSE(done);
  EXPECT_EQ(read_to_the_end(b, at_b), "goodbye");
  run_until([&] { return done; });
  EXPECT_EQ(a.streams.size(), 0U);
}

}  // namespace
}  // namespace lockstep::transport
