// Streams between two machines of one process: the same inputs as with sockets, and no descriptor.
#include "transport/local_streams.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "core/base/rng.h"
#include "tests/transport/loopback.h"

namespace lockstep::transport {
namespace {

struct HasLocalStreams {
  LocalStreams local;
};

class WithoutSockets : private HasLocalStreams, public Loopback {
 protected:
  WithoutSockets() : Loopback(&local) {}
};

std::size_t descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST_F(WithoutSockets, AStreamTakesNoDescriptor) {
  const auto bound = b.streams.listen({{loopback_v4(0)}, 0, 0});
  ASSERT_TRUE(bound.ok());
  const std::size_t before = descriptors();
  a.streams.carry_out(io::Dial{a.names.next(), loopback_v4(bound->port)});
  run_until([&] { return a.saw<io::Opened>() && b.saw<io::Accepted>(); });
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ(b.last<io::Accepted>().from.family, io::Address::Family::kV4);
  EXPECT_EQ(b.last<io::Accepted>().stream.value % 2, 1U);
}

TEST_F(WithoutSockets, AListenerOnAllAddressesIsFound) {
  const auto bound = b.streams.listen({});
  ASSERT_TRUE(bound.ok());
  const std::size_t before = descriptors();
  a.streams.carry_out(io::Dial{a.names.next(), loopback_v4(bound->port)});
  run_until([&] { return b.saw<io::Accepted>(); });
  EXPECT_EQ(descriptors(), before);
}

TEST_F(WithoutSockets, NobodyListensAtAnotherPortOrAfterTheEnd) {
  connect();
  io::Address elsewhere = loopback_v4(1);
  a.streams.carry_out(io::Dial{a.names.next(), elsewhere});
  run_until([&] { return a.saw<io::Closed>(); });
  EXPECT_EQ(a.last<io::Closed>().reason, io::CloseReason::kRefused);
}

// Law: however writes and reads are split, the same bytes arrive in the same order, in the place before the tail.
TEST_F(WithoutSockets, BytesKeepTheirOrderHoweverTheyAreSplit) {
  connect();
  constexpr std::size_t kBytes = 300'017;
  std::vector<std::byte> sent(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) sent[i] = static_cast<std::byte>(draw(1, 2, i) & 0xffU);
  std::vector<std::byte> received(kBytes);
  std::size_t written = 0;
  std::size_t landed = 0;
  const auto write = [&] {
    const std::size_t size = std::min<std::size_t>(1 + draw(1, 3, written) % 5000, kBytes - written);
    if (size == 0) return;
    io::Write next{at_a, {}};
    next.slices.push({std::span(sent).subspan(written, size), {}});
    a.streams.carry_out(next);
  };
  const auto read = [&] {
    const std::size_t size = std::min<std::size_t>(1 + draw(1, 4, landed) % 7000, kBytes - landed);
    if (size > 0) b.streams.carry_out(io::Read{at_b, {}, std::span(received).subspan(landed, size)});
  };
  a.on_input = [&](io::Input& input) {
    if (const auto* done = std::get_if<io::WriteDone>(&input)) written += done->bytes, write();
  };
  b.on_input = [&](io::Input& input) {
    if (const auto* done = std::get_if<io::ReadDone>(&input)) landed += done->bytes, read();
  };
  write();
  read();
  run_until([&] { return landed == kBytes && written == kBytes; });
  EXPECT_EQ(received, sent);
  EXPECT_EQ(a.streams.bytes_written(), kBytes);
  EXPECT_EQ(b.streams.bytes_read(), kBytes);
}

TEST_F(WithoutSockets, AnOrderlyCloseIsAnEndAndAnotherAReset) {
  for (const bool in_order : {true, false}) {
    a.seen.clear();
    b.seen.clear();
    if (in_order) {
      connect();
    } else {
      b.streams.stop_listening();
      connect();
    }
    std::array<std::byte, 10> tail{};
    b.streams.carry_out(io::Read{at_b, {}, tail});
    a.streams.carry_out(write_of(at_a, "bye"));
    run_until([&] { return b.saw<io::ReadDone>() && a.saw<io::WriteDone>(); });
    b.streams.carry_out(io::Read{at_b, {}, tail});
    a.streams.carry_out(io::Close{at_a, in_order});
    run_until([&] { return b.saw<io::Closed>() && a.saw<io::Closed>(); });
    EXPECT_EQ(a.last<io::Closed>().reason, io::CloseReason::kAsked);
    EXPECT_EQ(b.last<io::Closed>().reason, in_order ? io::CloseReason::kEnd : io::CloseReason::kReset);
  }
}

TEST_F(WithoutSockets, ARevokedLoanGetsNoBytesAndTheNextOneDoes) {
  connect();
  std::array<std::byte, 10> first{};
  std::array<std::byte, 10> second{};
  b.streams.carry_out(io::Read{at_b, {}, first});
  pump();
  b.streams.carry_out(io::Revoke{at_b, io::Direction::kRead});
  run_until([&] { return b.saw<io::Revoked>(); });
  a.streams.carry_out(write_of(at_a, "text"));
  pump();
  EXPECT_FALSE(b.saw<io::ReadDone>());
  b.streams.carry_out(io::Read{at_b, {}, second});
  run_until([&] { return b.saw<io::ReadDone>() && a.saw<io::WriteDone>(); });
  EXPECT_EQ(first[0], std::byte{0});
  EXPECT_EQ(second[0], std::byte{'t'});
}

TEST_F(WithoutSockets, AWriterLearnsThatTheOtherEndIsGone) {
  connect();
  a.streams.carry_out(write_of(at_a, "nobody reads this"));
  pump();
  b.streams.carry_out(io::Close{at_b, false});
  run_until([&] { return a.saw<io::Closed>(); });
  EXPECT_EQ(a.last<io::Closed>().reason, io::CloseReason::kReset);
}

TEST_F(WithoutSockets, ASetThatShutsDownResetsItsStreams) {
  connect();
  std::array<std::byte, 10> tail{};
  a.streams.carry_out(io::Read{at_a, {}, tail});
  bool done = false;
  b.streams.shut_down(StreamSet::ClosingStreams::kWait, [&] { done = true; });
  EXPECT_TRUE(done);
  run_until([&] { return a.saw<io::Closed>(); });
  EXPECT_EQ(a.last<io::Closed>().reason, io::CloseReason::kReset);
}

}  // namespace
}  // namespace lockstep::transport
