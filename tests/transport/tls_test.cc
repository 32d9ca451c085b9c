// TLS between two stream sets: what each side proves, and which handshakes fail, with which words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "core/wire/link_reader.h"
#include "tests/transport/loopback.h"
#include "transport/handshakes.h"
#include "transport/tls/key_pair.h"

namespace lockstep::transport {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Tls : public Loopback {
 protected:
  Tls() { secure(); }

  // Dials b, which is a coordinator, and returns how it ended.
  io::Closed dial_in_vain() {
    const auto bound = b.streams.listen({{loopback_v4(0)}, 0, 0});
    EXPECT_TRUE(bound.ok());
    a.streams.carry_out(io::Dial{a.names.next(), loopback_v4(bound->port), true});
    run_until([&] { return a.saw<io::Closed>(); });
    EXPECT_FALSE(a.saw<io::Opened>());
    return a.last<io::Closed>();
  }
  [[nodiscard]] io::Identity proved() const { return b.last<io::Accepted>().identity; }
};

TEST_F(Tls, BothSidesLearnTheOthersKeyAndTheListenerTheToken) {
  connect();
  EXPECT_EQ(a.last<io::Opened>().identity.key, token.coordinator_key);
  EXPECT_EQ(a.last<io::Opened>().identity.token, io::TokenId{});
  EXPECT_FALSE(proved().key.is_none());
  EXPECT_NE(proved().key, token.coordinator_key);
  EXPECT_EQ(proved().token, token.id);
  EXPECT_TRUE(proved().proved);
}

TEST_F(Tls, AWrongSecretAndAnUnknownTokenAreNotProved) {
  const auto bound = b.streams.listen({{loopback_v4(0)}, 0, 0});
  ASSERT_TRUE(bound.ok());
  wire::RunToken wrong = token;
  wrong.secret.back() ^= 1U;
  wire::RunToken unknown = token;
  unknown.id = {8};
  for (const wire::RunToken& other : {wrong, unknown}) {
    const std::size_t before = b.all<io::Accepted>().size();
    a.streams.secure({std::make_shared<tls::Credentials>(other), false});
    a.streams.carry_out(io::Dial{a.names.next(), loopback_v4(bound->port), true});
    run_until([&] { return b.all<io::Accepted>().size() > before; });
    EXPECT_EQ(proved().token, other.id);
    EXPECT_FALSE(proved().proved);
  }
}

TEST_F(Tls, AMacOfOneSessionProvesNothingInAnother) {
  const tls::Mac first = tls::mac_of(token.secret, token.id, bytes_of("one session"));
  const tls::Mac second = tls::mac_of(token.secret, token.id, bytes_of("other session"));
  EXPECT_FALSE(tls::equal(first, second));
  EXPECT_TRUE(tls::equal(first, tls::mac_of(token.secret, token.id, bytes_of("one session"))));
  EXPECT_FALSE(tls::equal(first, tls::mac_of(token.secret, {8}, bytes_of("one session"))));
}

TEST_F(Tls, ATokenThatIsTakenBackIsNotProvedAnyMore) {
  b_credentials->set_secrets({});
  connect();
  EXPECT_FALSE(proved().proved);
}

TEST_F(Tls, ADiallerSaysNothingToACoordinatorWithAnotherKey) {
  token.coordinator_key.bytes.front() ^= 1U;
  a.streams.secure({std::make_shared<tls::Credentials>(token), false});
  const io::Closed closed = dial_in_vain();
  EXPECT_EQ(closed.reason, io::CloseReason::kRejected);
  EXPECT_THAT(closed.text, HasSubstr("another key than the run token names"));
  EXPECT_FALSE(b.saw<io::Accepted>());
}

TEST_F(Tls, APeerShowsItsKeyToAnotherPeerAndNoToken) {
  const auto bound = b.streams.listen({{loopback_v4(0)}, 0, 0});
  ASSERT_TRUE(bound.ok());
  b.streams.secure({std::make_shared<tls::Credentials>(token), false});  // joined by the same token
  a.streams.carry_out(io::Dial{a.names.next(), loopback_v4(bound->port), false});
  run_until([&] { return a.saw<io::Opened>() && b.saw<io::Accepted>(); });
  EXPECT_EQ(proved().token, io::TokenId{});
  EXPECT_FALSE(proved().proved);
  EXPECT_FALSE(proved().key.is_none());
  EXPECT_NE(a.last<io::Opened>().identity.key, proved().key);
}

TEST_F(Tls, AListenerWithoutTlsIsNamed) {
  b.streams.secure({});
  const auto bound = b.streams.listen({{loopback_v4(0)}, 0, 0});
  ASSERT_TRUE(bound.ok());
  a.streams.carry_out(io::Dial{a.names.next(), loopback_v4(bound->port), true});
  run_until([&] { return b.saw<io::Accepted>(); });
  b.streams.carry_out(write_of(b.last<io::Accepted>().stream, "LOCKSTEP and more than a record's head"));
  run_until([&] { return a.saw<io::Closed>(); });
  EXPECT_EQ(a.last<io::Closed>().reason, io::CloseReason::kRejected) << "a coordinator without TLS stays one";
  EXPECT_THAT(a.last<io::Closed>().text, AllOf(HasSubstr("the coordinator there speaks no TLS"),
                                               HasSubstr("--insecure"), HasSubstr("--tokens FILE")));
}

// A web server, for example, may give way to the coordinator.
TEST_F(Tls, AListenerThatIsNoLockstepProgramIsTriedAgain) {
  b.streams.secure({});
  const auto bound = b.streams.listen({{loopback_v4(0)}, 0, 0});
  ASSERT_TRUE(bound.ok());
  a.streams.carry_out(io::Dial{a.names.next(), loopback_v4(bound->port), true});
  run_until([&] { return b.saw<io::Accepted>(); });
  b.streams.carry_out(write_of(b.last<io::Accepted>().stream, "LOCK OUT: and more than a record's head"));
  run_until([&] { return a.saw<io::Closed>(); });
  EXPECT_NE(a.last<io::Closed>().reason, io::CloseReason::kRejected);
  EXPECT_THAT(a.last<io::Closed>().text, HasSubstr("does not speak TLS"));
}

TEST_F(Tls, ADiallerWithoutTlsLearnsWhatToDo) {
  std::vector<std::string> lines;
  Side host(io, [&](std::string_view line) { lines.emplace_back(line); });
  host.streams.secure({b_credentials, false});
  const auto bound = host.streams.listen({{loopback_v4(0)}, 0, 0});
  ASSERT_TRUE(bound.ok());
  a.streams.secure({});
  at_a = a.names.next();
  a.streams.carry_out(io::Dial{at_a, loopback_v4(bound->port), true});
  run_until([&] { return a.saw<io::Opened>(); });
  a.streams.carry_out(write_of(at_a, "LOCKSTEP"));
  const std::string answer = read_to_the_end(a, at_a);
  EXPECT_THAT(answer, HasSubstr("LOCKSTEP"));
  EXPECT_THAT(answer, HasSubstr("speaks TLS only: connect with the run token"));
  EXPECT_FALSE(host.saw<io::Accepted>());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines.front(), HasSubstr("speaks no TLS"));
}

TEST_F(Tls, PlainStreamsOfOtherMachinesAreRefusedUnlessAskedFor) {
  a.streams.secure({});
  io::Address far = loopback_v4(9);
  far.bytes = {192, 0, 2, 77};  // for documentation (RFC 5737)
  a.streams.carry_out(io::Dial{a.names.next(), far, true});
  run_until([&] { return a.saw<io::Closed>(); });
  EXPECT_EQ(a.last<io::Closed>().reason, io::CloseReason::kRejected);
  EXPECT_THAT(a.last<io::Closed>().text, HasSubstr("a plain stream to another machine is refused"));
}

// ---- strangers ----

// A listener, and raw sockets that dial it.
class Strangers : public Tls {
 protected:
  Strangers() : host(io, [this](std::string_view line) { lines.emplace_back(line); }) {
    host.streams.secure({b_credentials, false});
    const auto bound = host.streams.listen({{loopback_v4(0)}, 0, 0});
    EXPECT_TRUE(bound.ok());
    port = bound->port;
  }
  asio::ip::tcp::socket dial() {
    asio::ip::tcp::socket raw(io);
    raw.connect({asio::ip::address_v4::loopback(), port});
    return raw;
  }
  // Whether the host has closed this connection.
  static bool is_closed(asio::ip::tcp::socket& raw) {
    std::array<char, 256> bytes{};
    std::error_code error;
    raw.non_blocking(true, error);
    raw.read_some(asio::buffer(bytes), error);
    return error && error != asio::error::would_block;
  }

  Side host;
  std::uint16_t port = 0;
  std::vector<std::string> lines;
};

TEST_F(Strangers, WhatIsNoHandshakeIsClosed) {
  for (const std::string& text : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\x16\x03\x01\x00\x05hello", 10),
                                  std::string("\x16\x03\x01\xff\xff\xff\xff\xff", 8)}) {
    auto raw = dial();
    asio::write(raw, asio::buffer(text));
    run_until([&] {
      host.pump();
      return is_closed(raw);
    });
  }
  EXPECT_FALSE(host.saw<io::Accepted>());
  EXPECT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines.front(), HasSubstr("speaks no TLS"));
}

TEST_F(Strangers, TheOldestMakesRoomForTheNewestAndAPeerStillComesIn) {
  std::vector<asio::ip::tcp::socket> crowd;
  for (std::uint32_t i = 0; i < Handshakes::kPlaces + 1; ++i) {
    crowd.push_back(dial());
    if (i % 100 == 99) io.poll();  // the backlog is limited
  }
  run_until([&] { return is_closed(crowd.front()); });
  EXPECT_FALSE(is_closed(crowd.back()));
  a.streams.carry_out(io::Dial{a.names.next(), loopback_v4(port), true});
  run_until([&] {
    host.pump();
    return a.saw<io::Opened>() && host.saw<io::Accepted>();
  });
  EXPECT_LE(lines.size(), EventLog::kLinesPerMinute);
}

TEST(HandshakePace, ANetworkBeginsABurstAndThenSoManyASecond) {
  HandshakePace pace;
  const io::Address one = loopback_v4(0);
  io::Address other = one;
  other.bytes[3] = 2;
  Instant now{1'000'000'000};
  const auto taken = [&](const io::Address& network, std::uint32_t tries) {
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < tries; ++i) count += pace.take(network, now) ? 1 : 0;
    return count;
  };
  EXPECT_EQ(taken(one, 10'000), HandshakePace::kBurst);
  EXPECT_EQ(taken(other, 10), 10U) << "networks do not share";
  now = now + seconds(1);
  EXPECT_EQ(taken(one, 10'000), HandshakePace::kPerSecond);
  now = now + seconds(3600);
  EXPECT_EQ(taken(one, 10'000), HandshakePace::kBurst);
}

TEST(HandshakePace, RemembersALimitedNumberOfNetworks) {
  HandshakePace pace;
  Instant now{1'000'000'000};
  io::Address network = loopback_v4(0);
  const auto name = [&](std::size_t i) {
    network.bytes[1] = static_cast<std::uint8_t>(i >> 8U);
    network.bytes[2] = static_cast<std::uint8_t>(i);
  };
  for (std::size_t i = 0; i < HandshakePace::kMostNetworks; ++i) {
    name(i);
    EXPECT_TRUE(pace.take(network, now));
  }
  name(HandshakePace::kMostNetworks);
  EXPECT_FALSE(pace.take(network, now));
  now = now + seconds(1);
  EXPECT_TRUE(pace.take(network, now)) << "buckets that are full again are forgotten";
}

// ---- keys ----

TEST(KeyPair, SurvivesItsPem) {
  const tls::KeyPair keys = tls::KeyPair::generate();
  const auto again = tls::KeyPair::from_pem(keys.pem());
  ASSERT_TRUE(again.ok()) << again.error().text;
  EXPECT_EQ(again->digest(), keys.digest());
  EXPECT_NE(tls::KeyPair::generate().digest(), keys.digest());
}

TEST(KeyPair, RefusesWhatIsNoKeyAndDoesNotRepeatIt) {
  for (const std::string& text :
       {std::string(), std::string("secret words"), tls::KeyPair::generate().pem().substr(40)}) {
    const auto keys = tls::KeyPair::from_pem(text);
    ASSERT_FALSE(keys.ok());
    EXPECT_THAT(keys.error().text, HasSubstr("no private key in PEM"));
    EXPECT_THAT(keys.error().text, Not(HasSubstr("secret words")));
  }
}

}  // namespace
}  // namespace lockstep::transport
