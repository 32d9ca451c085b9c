// An admitted peer that violates the protocol, played by the test over real sockets: the peer is evicted, or its stream
// ends, and the others continue. tests/core/{coordinator,peer} test every lie; here are some of each kind.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/processes/party.h"
#include "tests/processes/stranger.h"
#include "transport/status_client.h"

namespace lockstep::testing {
namespace {

constexpr PeerId kLiar{0, 1};  // smaller than all other ids, so it dials

// Two honest members, and a liar that they have admitted.
class Liar : public ::testing::Test {
 protected:
  Liar() : run(2), liar(port_of(run.coordinator.address)) {
    wire::Join join;
    join.peer = kLiar;
    join.advertised.port = 9;  // the liar listens nowhere, and no peer dials it
    join.name = "liar";
    liar.say(preamble());
    liar.say_message(join);
    EXPECT_TRUE(liar.hear<wire::Waiting>());
    const auto question = liar.hear<wire::Propose>();  // whether it answers
    EXPECT_TRUE(question);
    if (!question) return;
    liar.say_message(wire::Flush{question->number, {}});
    for (auto& peer : run.peers) peer->admit(3);
    const auto proposal = liar.hear<wire::Propose>();
    EXPECT_TRUE(proposal);
    if (!proposal) return;
    view = proposal->view;
    key = proposal->link_key;
    liar.say_message(wire::Flush{proposal->number, {}});
    EXPECT_TRUE(liar.hear<wire::Install>());
    for (auto& peer : run.peers) EXPECT_EQ(peer->ended().status, Status::kOk);
  }

  [[nodiscard]] wire::Done done() const {
    return {{view.cohort, {}, Tag{77}, 0}, Generation{view.number.value}, {}, 0};
  }
  // Opens a stream to each member, like a neighbour.
  std::vector<Stranger> link(std::uint16_t stripe = 0, std::uint16_t stripes = 1) {
    std::vector<Stranger> streams;
    for (const wire::Member& member : view.members) {
      if (member.id == kLiar) continue;
      Stranger& stream = streams.emplace_back(member.address.port);
      stream.say(preamble());
      stream.say_message(wire::Link{kLiar, member.id, StripeIndex{stripe}, stripes, key});
      EXPECT_TRUE(stream.hear<wire::LinkWelcome>());
    }
    return streams;
  }
  void expect_two_go_on() {
    expect_sum_of(2, run.all_reduce(2));
    const auto status = transport::query_status(run.coordinator.address, seconds(10));
    ASSERT_TRUE(status.ok()) << status.error().text;
    EXPECT_EQ(status->view.members.size(), 2U);
  }

  Party run;
  Stranger liar;
  wire::View view;
  LinkKey key;
};

class LiarToTheCoordinator : public Liar {
 protected:
  // The other peers are in the middle of a round that waits for the liar.
  void expect_out(const std::function<void()>& lie, const std::string& reason) {
    for (auto& peer : run.peers) peer->all_reduce();
    lie();
    const auto evicted = liar.hear<wire::Evicted>();
    ASSERT_TRUE(evicted) << "it is still in";
    EXPECT_NE(evicted->text.find(reason), std::string::npos) << evicted->text;
    std::vector<Ended> ends;
    for (auto& peer : run.peers) ends.push_back(peer->ended());
    expect_sum_of(2, ends);
    expect_two_go_on();
  }
};

TEST_F(LiarToTheCoordinator, ThatSpeaksNoise) {
  expect_out([&] { liar.say(Bytes(100, std::byte{0xa5})); }, "header");
}

TEST_F(LiarToTheCoordinator, ThatIsDoneTwice) {
  expect_out(
      [&] {
        liar.say_message(done());
        liar.say_message(done());
      },
      "done twice");
}

TEST_F(LiarToTheCoordinator, ThatIsDoneWithRoundsOfOthers) {
  expect_out(
      [&] {
        for (std::uint64_t i = 0; i < std::uint64_t{2} * kMaxUndecided; ++i) {
          wire::Done one = done();
          one.key.tag.value += i;
          liar.say_message(one);
        }
      },
      "more rounds than can be undecided");
}

TEST_F(LiarToTheCoordinator, ThatSendsUnrequestedAnswers) {
  expect_out([&] { liar.say_message(wire::Flush{ProposalNumber{1000}, {}}); }, "never made");
}

TEST_F(LiarToTheCoordinator, ThatLeavesTwice) {
  expect_out(
      [&] {
        liar.say_message(wire::Leave{});
        liar.say_message(wire::Leave{});
      },
      "left twice");
}

TEST_F(Liar, ToItsNeighbours) {
  using Lie = std::function<void(Stranger&)>;
  wire::Ready ready;
  ready.key = {view.cohort, {}, Tag{0}, 0};
  ready.attempt = Generation{view.number.value};
  const std::pair<const char*, Lie> lies[] = {
      {"a message that neighbours do not send", [](Stranger& s) { s.say_message(wire::Pending{1}); }},
      {"noise", [](Stranger& s) { s.say(Bytes(100, std::byte{0xa5})); }},
      {"an announcement of another group",
       [&](Stranger& s) {
         wire::Ready lie = ready;
         lie.key.group = GroupId{7};
         s.say_message(lie);
       }},
      {"more announcements than rounds can be in flight",
       [&](Stranger& s) {
         for (std::uint64_t i = 0; i <= std::uint64_t{2} * kMaxRoundsInFlight; ++i) {
           wire::Ready lie = ready;
           lie.key.tag.value = 1000 + i;
           s.say_message(lie);
         }
       }},
      {"a header that promises 4 GiB",
       [](Stranger& s) {
         Bytes bytes(wire::kHeaderBytes);
         wire::encode(wire::FrameHeader{wire::type_of(wire::Ready{}), 0xffffffffU, Term{1}, 0},
                      std::span(bytes).first<wire::kHeaderBytes>());
         s.say(bytes);
       }},
  };
  for (const auto& [name, lie] : lies) {
    for (Stranger& stream : link()) {
      lie(stream);
      EXPECT_TRUE(stream.is_shown_out()) << name;
    }
  }
  // Another number of stripes, and silence. Its tag differs from the tag of the next round, which it would not fit
  // while the liar is a member.
  ready.key.tag = Tag{5};
  for (Stranger& stream : link(15, 16)) stream.say_message(ready);
  liar.say_message(wire::Leave{});
  EXPECT_TRUE(liar.hear<wire::Propose>());
  run.peers[0]->all_reduce();
  run.peers[1]->all_reduce();
  liar.say(Bytes(100, std::byte{0xff}));
  std::vector<Ended> ends;
  for (auto& peer : run.peers) ends.push_back(peer->ended());
  expect_sum_of(2, ends);
  expect_two_go_on();
}

// ---- a coordinator that lies ----

class LyingCoordinator : public ::testing::Test {
 public:
  LyingCoordinator() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(::listen(listener_, 4), 0);
    socklen_t size = sizeof at;
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  }
  ~LyingCoordinator() override { ::close(listener_); }
  LyingCoordinator(const LyingCoordinator&) = delete;
  LyingCoordinator& operator=(const LyingCoordinator&) = delete;

 protected:
  // How a peer's connect ends when its coordinator greets the peer and then sends this.
  Ended connect(const std::function<void(Stranger&, const wire::Join&)>& lie) {
    ScriptedPeer peer({.name = "a"});
    peer.connect(address_);
    Stranger stream(Stranger::Accepted{::accept(listener_, nullptr, nullptr)});
    const auto join = stream.hear<wire::Join>();
    EXPECT_TRUE(join);
    stream.say(preamble());
    stream.say_message(wire::Waiting{{}, milliseconds(500), seconds(5)});
    if (join) lie(stream, *join);
    return peer.ended();
  }

  static wire::Propose founding(const wire::Join& join) {
    wire::Propose propose;
    propose.number = ProposalNumber{1};
    propose.view = {Term{1}, ViewNumber{1}, CohortId{1}, {{join.peer, {}, {}, join.advertised, "a"}}, {}};
    propose.view.members[0].address.family = io::Address::Family::kV4;
    propose.view.members[0].address.bytes = {127, 0, 0, 1};
    return propose;
  }

 private:
  int listener_;
  std::string address_;
};

TEST_F(LyingCoordinator, EndsTheRunWithTheReason) {
  const std::pair<std::string, std::function<void(wire::Propose&)>> cases[] = {
      {"without this peer", [](wire::Propose& p) { p.view.members.clear(); }},
      {"in it twice", [](wire::Propose& p) { p.view.members.push_back(p.view.members[0]); }},
      {"listens nowhere", [](wire::Propose& p) { p.view.members[0].address = {}; }},
      {"another group", [](wire::Propose& p) { p.view.members[0].group = GroupId{5}; }},
      {"made proposal 0", [](wire::Propose& p) { p.number = {}; }},
      {"proposed view 0", [](wire::Propose& p) { p.view.number = {}; }},
  };
  for (const auto& [reason, change] : cases) {
    const Ended ended = connect([&, &lie = change](Stranger& stream, const wire::Join& join) {
      wire::Propose propose = founding(join);
      lie(propose);
      stream.say_message(propose);
      stream.say_message(wire::Install{propose.number});
    });
    EXPECT_EQ(ended.status, Status::kProtocolError) << reason;
    EXPECT_NE(ended.text.find(reason), std::string::npos) << ended.text;
  }
  const Ended ended = connect([](Stranger& stream, const wire::Join&) { stream.say_message(wire::Left{}); });
  EXPECT_EQ(ended.status, Status::kProtocolError);
  EXPECT_NE(ended.text.find("did not leave"), std::string::npos) << ended.text;
}

}  // namespace
}  // namespace lockstep::testing
