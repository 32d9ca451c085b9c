// One honest peer in a ring of three. The test plays its coordinator and both neighbours, which may lie.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "fuzz/hosts.h"
#include "tests/support/sample_messages.h"

namespace lockstep::peer {

using fuzz::address_of;
using fuzz::FarEnd;

inline constexpr PeerId kLow{1, 1};  // upstream of the peer; dials it
inline constexpr PeerId kMe{5, 5};
inline constexpr PeerId kHigh{9, 9};  // downstream; is dialled
inline constexpr LinkKey kKey{0x1234, 0x5678};

inline PeerOptions options(bool auto_admit = false) {
  PeerOptions options;
  options.id = kMe;
  options.name = "me";
  options.stripes = 1;
  options.segment_bytes = 1024;  // every rank has a chunk, even of a small tensor
  options.auto_admit = auto_admit;
  options.dial_timeout = options.link_timeout = options.link_silence = seconds(60);
  return options;
}

inline Request direct_all_reduce() {
  Request request;
  request.collective = wire::Collective::kAllReduce;
  request.type = DataType::kF32;
  request.tag = Tag{7};
  request.algorithm = wire::Algorithm::kDirect;
  return request;
}

// The coordinator is so far away that members send Done to each other (rule 14).
inline constexpr Duration kFar = milliseconds(20);

// The step of a clock in tests of time limits.
inline constexpr Duration kTick = milliseconds(1);

inline wire::Member member(PeerId id, Duration round_trip = kFar) {
  return {id, {}, {}, address_of(static_cast<std::uint8_t>(id.low)), "p" + std::to_string(id.low), round_trip};
}

inline wire::View view_of(std::uint64_t number, std::uint64_t cohort, const std::vector<PeerId>& members,
                          Duration round_trip = kFar) {
  wire::View view{Term{1}, ViewNumber{number}, CohortId{cohort}, {}, {}};
  for (const PeerId id : members) view.members.push_back(member(id, round_trip));
  return view;
}

class Peer3 {
 public:
  // A member of {low, me, high} in view 1, linked with both neighbours.
  explicit Peer3(bool joined = true, bool auto_admit = false)
      : Peer3(options(auto_admit), {kLow, kMe, kHigh}, joined) {}
  // `ring`: in rank order; low is upstream and high downstream. `meshed`: the links between all pairs work.
  Peer3(const PeerOptions& options, std::vector<PeerId> ring, bool joined = true, Duration round_trip = kFar,
        bool meshed = true)
      : me(options), ring_(std::move(ring)) {
    connected = me.connect();
    coordinator = me.streams.dialling().front();
    me.streams.open(*coordinator);
    coordinator->greet();
    if (!joined) return;
    coordinator->say(wire::Waiting{address_of(5), milliseconds(500), seconds(60)});
    wire::View first = view_of(1, 1, ring_, round_trip);
    if (!meshed) first.unmeshed = {GroupId{}};
    install(proposal(std::move(first)));
    EXPECT_EQ(me.views.size(), 1U);
    high = welcome(kHigh);
    EXPECT_NE(high, nullptr);
    low = &dial_in(kLow);
    EXPECT_NE(low->last<wire::LinkWelcome>(), nullptr);
  }

  // A stream that says this to the peer. `identity`: the key that its end proves.
  FarEnd& dial_in(const wire::Link& link, const io::Identity& identity = {}) {
    FarEnd& end = me.streams.accept(address_of(1), identity);
    end.greet();
    end.say(link);
    me.run();
    return end;
  }
  FarEnd& dial_in(PeerId from, std::uint16_t stripe = 0, std::uint16_t stripes = 1, LinkKey key = kKey) {
    return dial_in(wire::Link{from, kMe, StripeIndex{stripe}, stripes, key});
  }
  // The stream that the peer dials to this member, opened; nullptr: it dials none.
  FarEnd* welcome(PeerId member, Duration link_round_trip = fuzz::kRoundTrip) {
    for (FarEnd* end : me.streams.dialling()) {
      if (end->dialled() != address_of(static_cast<std::uint8_t>(member.low))) continue;
      me.streams.open(*end, link_round_trip);
      end->greet();
      end->say(wire::LinkWelcome{});
      me.run();
      return end;
    }
    return nullptr;
  }
  wire::Propose proposal(wire::View view) {
    wire::Propose propose;
    propose.number = ProposalNumber{++proposals};
    propose.view = std::move(view);
    propose.link_key = kKey;
    return propose;
  }
  wire::Propose loss_of(PeerId lost, std::uint64_t number = 2) {
    std::vector<PeerId> rest;
    for (const PeerId id : ring_) {
      if (id != lost) rest.push_back(id);
    }
    wire::Propose propose = proposal(view_of(number, 1, rest));
    propose.lost = {lost};
    return propose;
  }
  void propose(const wire::Propose& propose) {
    coordinator->say(propose);
    me.run();
  }
  void install(const wire::Propose& what) {
    propose(what);
    coordinator->say(wire::Install{what.number});
    me.run();
  }
  // The coordinator stops these rounds.
  void stopped(const std::vector<std::uint64_t>& tags) {
    wire::Propose propose = proposal(me.views.back());
    for (const std::uint64_t tag : tags) propose.verdicts.push_back({key(tag), Generation{1}, Status::kAborted, 0, {}});
    install(propose);
  }

  // A heartbeat comes from the coordinator, and from no neighbour.
  void pass_with_coordinator(Duration time) {
    coordinator->say(wire::Heartbeat{});
    me.pass(time);
    me.run();
  }
  // Heartbeats come from all but these, one before each step.
  void pass_heartbeats(Duration time, const std::vector<FarEnd*>& but = {}, Duration step = milliseconds(500)) {
    while (time.ns > 0) {
      for (FarEnd* end : {low, high, coordinator}) {
        if (std::find(but.begin(), but.end(), end) == but.end() && !end->shown_out()) end->say(wire::Heartbeat{});
      }
      me.pass(std::min(time, step));
      me.run();
      time = time - step;
    }
  }

  static RoundKey key(std::uint64_t tag = 7, std::uint32_t use = 0) { return {CohortId{1}, {}, Tag{tag}, use}; }
  // An all-reduce goes around the ring.
  CallId launch(wire::Collective collective, std::uint64_t tag = 7, std::uint64_t count = 12, std::uint64_t room = 36) {
    Request request;
    request.collective = collective;
    request.type = DataType::kF32;
    request.tag = Tag{tag};
    request.watch = watched;
    if (collective == wire::Collective::kAllReduce) request.algorithm = wire::Algorithm::kRing;
    const CallId call = me.launch(request, count, room);
    me.run();
    return call;
  }
  // Runs a round from the call to the commit: the peer is alive.
  void expect_alive(std::uint64_t tag = 1000) {
    EXPECT_FALSE(me.run_over) << me.run_over->text;
    const CallId call = launch(wire::Collective::kBarrier, tag);
    const auto* done = coordinator->last<wire::Done>();
    ASSERT_NE(done, nullptr);
    ASSERT_EQ(done->key, key(tag));
    coordinator->say(wire::Commit{done->key, done->attempt, done->hash, false, {}});
    me.run();
    ASSERT_NE(me.outcome(call), nullptr);
    EXPECT_EQ(me.outcome(call)->status, Status::kOk) << me.outcome(call)->text;
  }

  fuzz::PeerHost me;
  FarEnd* coordinator = nullptr;
  FarEnd* low = nullptr;
  FarEnd* high = nullptr;
  CallId connected;
  std::uint64_t proposals = 0;
  std::shared_ptr<const Watched> watched;  // the state that launched calls watch

 private:
  std::vector<PeerId> ring_;
};

struct Lie {
  std::string name;
  std::function<void(Peer3&)> tell;
  std::string reason;  // empty: the lie is ignored
};

}  // namespace lockstep::peer
