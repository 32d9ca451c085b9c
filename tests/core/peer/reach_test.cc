// Rule 70 of docs/protocol.md at a peer: who dials whom, and where. The test plays the coordinator and both neighbours.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/core/peer/peer3.h"

namespace lockstep::peer {
namespace {

io::Address private_address(PeerId peer) {
  return {io::Address::Family::kV4, {192, 168, 1, static_cast<std::uint8_t>(peer.low)}, 4000};
}

// A ring of {low, me, high} in which these call out. `one_network`: all three stand in one, with private addresses.
struct Reached : Peer3 {
  explicit Reached(const std::vector<PeerId>& callers, bool one_network = false) : Peer3(false) {
    coordinator->say(wire::Waiting{address_of(5), milliseconds(500), seconds(60)});
    wire::View view = view_of(1, 1, {kLow, kMe, kHigh});
    for (wire::Member& member : view.members) {
      member.calls_out = std::ranges::find(callers, member.id) != callers.end();
      member.outside = address_of(one_network ? 200 : static_cast<std::uint8_t>(member.id.low));
      if (one_network) member.local = private_address(member.id);
    }
    install(proposal(std::move(view)));
  }
  [[nodiscard]] std::vector<io::Address> dialled() const {
    std::vector<io::Address> addresses;
    for (const FarEnd* end : me.streams.dialling()) addresses.push_back(end->dialled());
    return addresses;
  }
  FarEnd& greet_as(PeerId from, wire::LinkUse use) { return dial_in(wire::Link{from, kMe, {}, 1, kKey, use}); }
};

TEST(ReachOfAPeer, WhoCannotBeDialledDials) {
  const auto at = [](PeerId peer) { return address_of(static_cast<std::uint8_t>(peer.low)); };
  EXPECT_EQ(Reached({}).dialled(), std::vector{at(kHigh)}) << "the smaller id";
  EXPECT_EQ(Reached({kMe}).dialled(), (std::vector{at(kLow), at(kHigh)}));
  EXPECT_EQ(Reached({kHigh}).dialled(), std::vector<io::Address>{});
  EXPECT_EQ(Reached({kLow}).dialled(), std::vector{at(kHigh)});
  EXPECT_EQ(Reached({kMe, kHigh}).dialled(), (std::vector{at(kLow), at(kHigh)})) << "it is tried all the same";
}

TEST(ReachOfAPeer, WhoIsDialledWelcomesTheOtherWhateverTheIds) {
  for (const PeerId caller : {kLow, kHigh}) {
    Reached run({caller});
    EXPECT_NE(run.greet_as(caller, wire::LinkUse::kRing).last<wire::LinkWelcome>(), nullptr);
  }
  Reached run({});
  const auto* const refused = run.greet_as(kHigh, wire::LinkUse::kRing).last<wire::Refused>();
  ASSERT_NE(refused, nullptr);
  EXPECT_NE(refused->text.find("you are dialled"), std::string::npos);
}

TEST(ReachOfAPeer, ACallerThatComesBeforeTheViewWaitsForIt) {
  for (const PeerId caller : {kLow, kHigh}) {
    Peer3 run(false);
    run.coordinator->say(wire::Waiting{address_of(5), milliseconds(500), seconds(60)});
    FarEnd& end = run.dial_in(caller);
    EXPECT_EQ(end.last<wire::LinkWelcome>(), nullptr);
    wire::View view = view_of(1, 1, {kLow, kMe, kHigh});
    for (wire::Member& member : view.members) member.calls_out = member.id == caller;
    run.install(run.proposal(std::move(view)));
    EXPECT_NE(end.last<wire::LinkWelcome>(), nullptr);
  }
}

// Five members around a ring: this peer has no link to the last one, `kFifth`, but for transfers.
constexpr PeerId kFifth{11, 11};
struct AcrossTheRing : Peer3 {
  explicit AcrossTheRing(PeerId caller) : Peer3(options(), {kLow, kMe, kHigh, PeerId{10, 10}, kFifth}, false) {
    coordinator->say(wire::Waiting{address_of(5), milliseconds(500), seconds(60)});
    wire::View view = view_of(1, 1, {kLow, kMe, kHigh, PeerId{10, 10}, kFifth}, Duration{});
    for (wire::Member& member : view.members) member.calls_out = member.id == caller;
    install(proposal(std::move(view)));
  }
  [[nodiscard]] std::ptrdiff_t dials_to_fifth() const {
    return std::ranges::count_if(me.streams.dialling(),
                                 [](const FarEnd* end) { return end->dialled() == address_of(11); });
  }
};

TEST(ReachOfAPeer, AMemberThatNobodyCanDialIsAskedToDialForATransfer) {
  AcrossTheRing run(kFifth);
  EXPECT_EQ(run.coordinator->last<wire::Knock>(), nullptr);
  run.me.send(kFifth, Tag{3}, 100);
  run.me.run();
  run.me.pass(milliseconds(20));
  run.me.run();
  EXPECT_EQ(run.dials_to_fifth(), 0);
  const auto* const knock = run.coordinator->last<wire::Knock>();
  ASSERT_NE(knock, nullptr);
  EXPECT_EQ(knock->other, kFifth);
}

TEST(ReachOfAPeer, AKnockFromTheCoordinatorMakesADialForATransfer) {
  AcrossTheRing run(kMe);
  EXPECT_EQ(run.dials_to_fifth(), 0);
  run.coordinator->say(wire::Knock{{77, 77}});  // nobody it knows
  run.coordinator->say(wire::Knock{kFifth});
  run.me.run();
  EXPECT_EQ(run.dials_to_fifth(), 1);
  EXPECT_FALSE(run.me.run_over);
}

TEST(ReachOfAPeer, TheNextAddressIsDialledWhenOneFails) {
  Reached run({kHigh, kMe}, true);
  const auto next_to_high = [&]() -> FarEnd* {
    for (FarEnd* end : run.me.streams.dialling()) {
      if (end->dialled() == private_address(kHigh) || end->dialled() == address_of(9)) return end;
    }
    return nullptr;
  };
  for (const bool inside : {true, false, true, false}) {
    FarEnd* const end = next_to_high();
    ASSERT_NE(end, nullptr);
    EXPECT_EQ(end->dialled(), inside ? private_address(kHigh) : address_of(9));
    run.me.streams.refuse(*end, "nobody there");
    run.me.run();
    run.pass_with_coordinator(milliseconds(500));
  }
  // Somebody else has this address.
  FarEnd* const wrong = next_to_high();
  ASSERT_NE(wrong, nullptr);
  run.me.streams.open(*wrong);
  run.me.run();
  wrong->greet();
  wrong->say(wire::Refused{Status::kRefused, "another peer was meant"});
  run.me.run();
  run.pass_with_coordinator(milliseconds(500));
  FarEnd* const right = next_to_high();
  ASSERT_NE(right, nullptr);
  EXPECT_EQ(right->dialled(), address_of(9));
}

TEST(ReachOfAPeer, ACallThatNeedsALinkWithoutAWayEndsAndTellsWhy) {
  for (const PeerId other : {kLow, kHigh}) {
    for (const auto collective : {wire::Collective::kGather, wire::Collective::kAllToAll}) {
      Reached run({kMe, other});
      Request request;
      request.collective = collective;
      request.type = DataType::kF32;
      request.tag = Tag{7};
      if (collective == wire::Collective::kGather) request.root = kMe;
      request.blocks = {};
      run.me.launch(std::move(request), 0);
      run.me.run();
      const auto* const stop = run.coordinator->last<wire::StopRound>();
      ASSERT_NE(stop, nullptr) << wire::name_of(collective);
      EXPECT_EQ(stop->status, Status::kUnreachable);
      EXPECT_NE(stop->text.find("needs a link between me and p" + std::to_string(other.low)), std::string::npos)
          << stop->text;
    }
    Reached run({kMe, other});
    const CallId send = run.me.send(other, Tag{3}, 100);
    ASSERT_NE(run.me.outcome(send), nullptr);
    EXPECT_EQ(run.me.outcome(send)->status, Status::kUnreachable);
    EXPECT_NE(run.me.outcome(send)->text.find("there is no way to p" + std::to_string(other.low)), std::string::npos);
    const PeerId third = other == kLow ? kHigh : kLow;
    EXPECT_EQ(run.me.outcome(run.me.send(third, Tag{3}, 100)), nullptr) << "it dials that one";
  }
}

TEST(ReachOfAPeer, ACoordinatorThatDialsBackIsAnsweredByTheRightPeerOnly) {
  Peer3 run(false);
  for (const PeerId meant : {kMe, kHigh}) {
    FarEnd& end = run.me.streams.accept(address_of(100));
    end.greet();
    end.say(wire::Link{{}, meant, {}, 1, {}, wire::LinkUse::kDialBack});
    run.me.run();
    const auto* const answer = end.last<wire::Link>();
    ASSERT_EQ(answer != nullptr, meant == kMe);
    if (answer != nullptr) {
      EXPECT_EQ(answer->from, kMe);
      EXPECT_EQ(answer->use, wire::LinkUse::kDialBack);
      EXPECT_EQ(answer->key, LinkKey{});
    }
    EXPECT_TRUE(end.shown_out());
  }
}

}  // namespace
}  // namespace lockstep::peer
