// Bad input to a listening port affects only its sender: members keep reducing and report nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "core/wire/codec.h"
#include "core/wire/limits.h"
#include "tests/processes/party.h"
#include "tests/processes/stranger.h"
#include "transport/status_client.h"

namespace lockstep::testing {
namespace {

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Bytes text(std::string_view words) {
  const auto bytes = std::as_bytes(std::span(words.data(), words.size()));
  return {bytes.begin(), bytes.end()};
}

// Invalid first messages, each with a name.
std::vector<std::pair<std::string, Bytes>> bad_openings() {
  std::vector<std::pair<std::string, Bytes>> all;
  all.emplace_back("zeros", Bytes(100'000));
  all.emplace_back("ones", Bytes(100'000, std::byte{0xff}));
  all.emplace_back("http", text("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  all.emplace_back("tls",
                   text(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(200, 'x')));
  all.emplace_back("noise after the preamble", preamble() + Bytes(1000, std::byte{0xa5}));
  for (std::size_t type = 0; type <= 255; type += type < 30 ? 1 : 75) {
    all.emplace_back("empty message of type " + std::to_string(type),
                     preamble() + frame(static_cast<std::uint8_t>(type), {}));
    wire::FrameHeader huge{static_cast<std::uint8_t>(type), 0xffffffffU, Term{1}, 0};
    Bytes bytes(wire::kHeaderBytes);
    wire::encode(huge, std::span(bytes).first<wire::kHeaderBytes>());
    all.emplace_back("4 GiB message of type " + std::to_string(type), preamble() + bytes);
  }
  // Sets each two and four bytes of a greeting to their maximum: the lengths of texts and lists are among them.
  wire::Join join;
  join.peer = PeerId{1, 2};
  join.name = "stranger";
  join.founders = kMaxMembers;
  const Bytes body = body_of(join);
  for (std::size_t at = 0; at + 2 <= body.size(); at += 2) {
    Bytes lie = body;
    lie[at] = lie[at + 1] = std::byte{0xff};
    lie.pop_back();  // always too short
    all.emplace_back("join with a lie at " + std::to_string(at), preamble() + frame(wire::type_of(join), lie));
  }
  wire::Segment segment;
  segment.length = kMaxSegmentBytes;
  all.emplace_back("a segment of a stranger", preamble() + frame(wire::type_of(segment), body_of(segment)));
  Bytes long_segment = body_of(segment);
  for (std::size_t i = long_segment.size() - 4; i < long_segment.size(); ++i) long_segment[i] = std::byte{0xff};
  all.emplace_back("a segment of 4 GiB", preamble() + frame(wire::type_of(segment), long_segment));
  return all;
}

class BadInput : public ::testing::Test {
 protected:
  BadInput() : run(2, options()) {
    expect_sum_of(2, run.all_reduce(2));
    const auto status = transport::query_status(run.coordinator.address, seconds(10));
    EXPECT_TRUE(status.ok());
    coordinator_port = port_of(run.coordinator.address);
    peer_port = status->view.members.front().address.port;
    view = status->view;
  }

  static coordinator::CoordinatorOptions options() {
    coordinator::CoordinatorOptions machine;
    machine.greeting = milliseconds(500);
    return machine;
  }

  // Members and view are unchanged, and rounds still commit.
  void expect_nobody_else_noticed() {
    expect_sum_of(2, run.all_reduce(2));
    const auto status = transport::query_status(run.coordinator.address, seconds(10));
    ASSERT_TRUE(status.ok()) << status.error().text;
    EXPECT_EQ(status->view, view);
    EXPECT_TRUE(status->waiting.empty());
  }

  Party run;
  std::uint16_t coordinator_port = 0;
  std::uint16_t peer_port = 0;
  wire::View view;
};

TEST_F(BadInput, EndsOnlyTheStreamOfItsSender) {
  for (const std::uint16_t port : {coordinator_port, peer_port}) {
    for (const auto& [name, bytes] : bad_openings()) {
      Stranger stranger(port);
      stranger.say(bytes);
      EXPECT_TRUE(stranger.is_shown_out()) << name << (port == peer_port ? " at a peer" : " at the coordinator");
    }
    expect_nobody_else_noticed();
  }
}

TEST_F(BadInput, AnotherVersionIsAnsweredWithBothVersions) {
  for (const std::uint16_t port : {coordinator_port, peer_port}) {
    Stranger old(port);
    old.say(preamble(77));
    EXPECT_TRUE(old.is_shown_out());
    const std::string answer(reinterpret_cast<const char*>(old.heard.data()), old.heard.size());
    EXPECT_NE(answer.find("version 77"), std::string::npos)
        << (port == peer_port ? "peer: " : "coordinator: ") << answer;
    EXPECT_NE(answer.find("version 1"), std::string::npos) << answer;
  }
  expect_nobody_else_noticed();
}

TEST_F(BadInput, ALinkForAnotherPeerIsEnded) {
  wire::Link link;
  link.from = PeerId{1, 2};
  link.to = PeerId{3, 4};
  Stranger stranger(peer_port);
  stranger.say(preamble() + frame(wire::type_of(link), body_of(link)));
  EXPECT_TRUE(stranger.is_shown_out());

  link.to = view.members.front().id;  // the right address, but an unknown peer
  Stranger nobody(peer_port);
  nobody.say(preamble() + frame(wire::type_of(link), body_of(link)));
  EXPECT_TRUE(nobody.is_shown_out());
  expect_nobody_else_noticed();
}

// The stranger names the neighbour whose stream it wants; any status shows the name.
TEST_F(BadInput, AStrangerCannotTakeANeighboursStream) {
  std::vector<wire::Member> members = view.members;
  std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  const wire::Member& victim = members.back();
  for (auto& peer : run.peers) peer->all_reduce({.count = 100'000, .times = 200});
  EXPECT_TRUE(run.peers.front()->is_going());
  for (std::uint16_t i = 0; i < 60; ++i) {
    const std::uint16_t stripes = i % 3 == 0 ? 16 : 2;  // the right number of stripes, or a wrong one
    Stranger thief(victim.address.port);
    thief.say(preamble());
    thief.say_message(wire::Link{members.front().id, victim.id, StripeIndex{static_cast<std::uint16_t>(i % stripes)},
                                 stripes, LinkKey{i % 4U, i}});
    const auto refused = thief.hear<wire::Refused>();
    ASSERT_TRUE(refused) << "it was let in";
    EXPECT_NE(refused->text.find("only its members"), std::string::npos) << refused->text;
    EXPECT_TRUE(thief.is_shown_out());
  }
  for (auto& peer : run.peers) {
    const Ended ended = peer->ended();
    EXPECT_EQ(ended.status, Status::kOk) << ended.text;
    EXPECT_EQ(ended.first, 2);
    EXPECT_EQ(ended.retries, 0U);
  }
  expect_nobody_else_noticed();
}

// A peer in the waiting room may send longer messages, up to its own limit.
TEST_F(BadInput, ANewcomerThatLiesAboutLengthsIsDisconnected) {
  const Bytes most(4, std::byte{0xff});
  const auto cut_short = [](const wire::Message& message, std::size_t bytes) {
    Bytes body = body_of(message);
    body.resize(body.size() - bytes);
    return body;
  };
  const auto header_of = [](std::uint8_t type, std::uint32_t length) {
    Bytes bytes(wire::kHeaderBytes);
    wire::encode(wire::FrameHeader{type, length, Term{1}, 0}, std::span(bytes).first<wire::kHeaderBytes>());
    return bytes;
  };
  const std::uint8_t flush = wire::type_of(wire::Flush{});
  std::vector<std::pair<std::string, Bytes>> lies;
  lies.emplace_back("Admit.open", frame(wire::type_of(wire::Admit{}), cut_short(wire::Admit{}, 4) + most));
  lies.emplace_back("Leave.open", frame(wire::type_of(wire::Leave{}), cut_short(wire::Leave{}, 4) + most));
  lies.emplace_back("Flush.open", frame(flush, cut_short(wire::Flush{}, 4) + most));
  lies.emplace_back("StopRound.text", frame(wire::type_of(wire::StopRound{}),
                                            cut_short(wire::StopRound{}, 2) + Bytes(2, std::byte{0xff})));
  lies.emplace_back("Segment.length", frame(wire::type_of(wire::Segment{}), cut_short(wire::Segment{}, 4) + most));
  lies.emplace_back("a body of 4 GiB", header_of(flush, 0xffffffffU));
  lies.emplace_back("a body one byte too long", header_of(flush, kMaxBodyBytes + 1));
  std::uint64_t id = 7;
  for (const auto& [name, bytes] : lies) {
    wire::Join join;
    join.peer = PeerId{id++, 7};
    join.founders = kMaxMembers;
    join.advertised.port = 1;
    Stranger liar(coordinator_port);
    liar.say(preamble() + frame(wire::type_of(join), body_of(join)) + bytes);
    EXPECT_TRUE(liar.is_shown_out()) << name;
  }
  expect_nobody_else_noticed();
}

TEST_F(BadInput, ThreeHundredSilentConnectionsAreClosed) {
  for (const std::uint16_t port : {coordinator_port, peer_port}) {
    std::vector<Stranger> crowd;
    crowd.reserve(300);
    for (int i = 0; i < 300; ++i) crowd.emplace_back(port);
    expect_sum_of(2, run.all_reduce(2, {.times = 50}));
    for (Stranger& stranger : crowd) EXPECT_TRUE(stranger.is_shown_out());
    expect_nobody_else_noticed();
  }
}

}  // namespace
}  // namespace lockstep::testing
