// Rule 65: a link is made of streams that prove the key of its member. The test plays the coordinator, both neighbours
// and an impostor that knows the key of the run.
#include <gtest/gtest.h>

#include <string>

#include "tests/core/peer/peer3.h"

namespace lockstep::peer {
namespace {

io::KeyDigest key_of(PeerId peer) {
  io::KeyDigest key;
  key.bytes.fill(static_cast<std::uint8_t>(peer.low));
  return key;
}
const io::KeyDigest kThief = key_of({77, 77});

wire::View secured_view(std::uint64_t number, std::uint64_t cohort, const std::vector<PeerId>& members) {
  wire::View view = view_of(number, cohort, members);
  for (wire::Member& member : view.members) member.key = key_of(member.id);
  return view;
}

struct SecuredPeer : Peer3 {
  SecuredPeer() : Peer3(false) {
    coordinator->say(wire::Waiting{address_of(5), milliseconds(500), seconds(60)});
    me.run();
  }
  void join() { install(proposal(secured_view(1, 1, {kLow, kMe, kHigh}))); }
  FarEnd& greet_as(PeerId from, const io::KeyDigest& key, wire::LinkUse use = wire::LinkUse::kRing) {
    return dial_in(wire::Link{from, kMe, {}, 1, kKey, use}, {key, {}, false});
  }
  FarEnd& open_next(const io::KeyDigest& key) {
    FarEnd& end = *me.streams.dialling().front();
    me.streams.open(end, fuzz::kRoundTrip, {key, {}, false});
    me.run();
    return end;
  }
};

TEST(MemberKeys, TheKeyOfTheRunIsNotSaidToAnImpostor) {
  SecuredPeer run;
  run.join();
  FarEnd& thief = run.open_next(kThief);
  EXPECT_TRUE(thief.heard().empty());
  EXPECT_TRUE(thief.shown_out());
  run.pass_with_coordinator(milliseconds(50));
  FarEnd& high = run.open_next(key_of(kHigh));  // dialled again
  ASSERT_NE(high.last<wire::Link>(), nullptr);
  EXPECT_EQ(high.last<wire::Link>()->to, kHigh);
  high.greet();
  high.say(wire::LinkWelcome{});
  run.me.run();
  EXPECT_FALSE(high.shown_out());
}

TEST(MemberKeys, AnAddressWithAnotherKeyIsABrokenLink) {
  SecuredPeer run;
  run.join();
  for (int dial = 0; dial < 8; ++dial) {
    EXPECT_EQ(run.coordinator->last<wire::LinkBroken>(), nullptr);
    run.open_next(kThief);
    run.pass_with_coordinator(milliseconds(600));
  }
  const auto* const broken = run.coordinator->last<wire::LinkBroken>();
  ASSERT_NE(broken, nullptr);
  EXPECT_EQ(broken->other, kHigh);
  EXPECT_NE(broken->text.find("another key than the member's"), std::string::npos);
}

TEST(MemberKeys, AnImpostorGetsNoPlaceInALink) {
  SecuredPeer run;
  run.join();
  FarEnd& thief = run.greet_as(kLow, kThief);
  EXPECT_EQ(thief.last<wire::LinkWelcome>(), nullptr);
  ASSERT_NE(thief.last<wire::Refused>(), nullptr);
  EXPECT_NE(thief.last<wire::Refused>()->text.find("another key than the member's"), std::string::npos);
  FarEnd& low = run.greet_as(kLow, key_of(kLow));
  EXPECT_NE(low.last<wire::LinkWelcome>(), nullptr);
  // Nor does it take the place of a stream that is up.
  EXPECT_NE(run.greet_as(kLow, kThief).last<wire::Refused>(), nullptr);
  EXPECT_FALSE(low.shown_out());
  EXPECT_EQ(run.coordinator->last<wire::LinkBroken>(), nullptr);
}

TEST(MemberKeys, AnImpostorThatComesBeforeTheViewDisplacesNobody) {
  SecuredPeer run;
  FarEnd& low = run.greet_as(kLow, key_of(kLow));
  FarEnd& thief = run.greet_as(kLow, kThief);
  EXPECT_FALSE(low.shown_out());
  run.join();
  EXPECT_NE(low.last<wire::LinkWelcome>(), nullptr);
  EXPECT_EQ(thief.last<wire::LinkWelcome>(), nullptr);
  EXPECT_NE(thief.last<wire::Refused>(), nullptr);
}

TEST(MemberKeys, ACallersUseIsItsOwn) {
  SecuredPeer run;
  run.join();
  const auto streams = run.me.footprint().streams;
  EXPECT_NE(run.greet_as(kHigh, kThief, wire::LinkUse::kTransfer).last<wire::Refused>(), nullptr);
  run.me.run();
  EXPECT_LE(run.me.footprint().streams, streams);
}

TEST(MemberKeys, ACoordinatorChangesNoKey) {
  SecuredPeer run;
  run.join();
  wire::View view = secured_view(2, 2, {kLow, kMe, kHigh});
  view.members.front().key = kThief;
  run.coordinator->say(run.proposal(view));
  run.me.run();
  ASSERT_TRUE(run.me.run_over);
  EXPECT_NE(run.me.run_over->text.find("another key"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::peer
