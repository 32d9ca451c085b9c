// One honest peer; its coordinator and both its neighbours are the test, and lie. A lying coordinator is left, with the reason;
// a neighbour's nonsense ends its stream and nothing else.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/kernels/checksum.h"
#include "fuzz/hosts.h"
#include "tests/support/sample_messages.h"

namespace lockstep::peer {
namespace {

using fuzz::address_of;
using fuzz::FarEnd;

constexpr PeerId kLow{1, 1};  // upstream of the peer; dials it
constexpr PeerId kMe{5, 5};
constexpr PeerId kHigh{9, 9};  // downstream; is dialled
constexpr LinkKey kKey{0x1234, 0x5678};

Options options(bool auto_admit = false) {
  Options options;
  options.id = kMe;
  options.name = "me";
  options.stripes = 1;
  options.auto_admit = auto_admit;
  options.dial_timeout = options.link_timeout = options.link_silence = seconds(60);
  return options;
}

wire::Member member(PeerId id) {
  return {id, {}, {}, address_of(static_cast<std::uint8_t>(id.low)), "p" + std::to_string(id.low)};
}

wire::View view_of(std::uint64_t number, std::uint64_t cohort, const std::vector<PeerId>& members) {
  wire::View view{Term{1}, ViewNumber{number}, CohortId{cohort}, {}};
  for (const PeerId id : members) view.members.push_back(member(id));
  return view;
}

class Peer3 {
 public:
  // A member of {low, me, high}, view 1, linked with both.
  explicit Peer3(bool joined = true, bool auto_admit = false) : me(options(auto_admit)) {
    connected = me.connect();
    coordinator = me.streams.dialling().front();
    me.streams.open(*coordinator);
    coordinator->greet();
    if (!joined) return;
    coordinator->say(wire::Waiting{address_of(5), milliseconds(500), seconds(60)});
    install(proposal(view_of(1, 1, {kLow, kMe, kHigh})));
    EXPECT_EQ(me.views.size(), 1U);
    high = me.streams.dialling().front();
    me.streams.open(*high);
    high->greet();
    high->say(wire::LinkWelcome{});
    low = &dial_in(kLow);
    EXPECT_NE(low->last<wire::LinkWelcome>(), nullptr);
  }

  FarEnd& dial_in(PeerId from, std::uint16_t stripe = 0, std::uint16_t stripes = 1, LinkKey key = kKey) {
    FarEnd& end = me.streams.accept(address_of(1));
    end.greet();
    end.say(wire::Link{from, kMe, StripeIndex{stripe}, stripes, key});
    me.run();
    return end;
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
    for (const PeerId id : {kLow, kMe, kHigh}) {
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

  static RoundKey key(std::uint64_t tag = 7, std::uint32_t use = 0) { return {CohortId{1}, {}, Tag{tag}, use}; }
  CallId launch(wire::Collective collective, std::uint64_t tag = 7, std::uint64_t count = 12, std::uint64_t room = 36) {
    Request request;
    request.collective = collective;
    request.type = DataType::kF32;
    request.tag = Tag{tag};
    const CallId call = me.launch(request, count, room);
    me.run();
    return call;
  }
  // A round of its own, from the call to the commit: it is alive.
  void expect_alive(std::uint64_t tag = 1000) {
    EXPECT_FALSE(me.run_over) << me.run_over->text;
    const CallId call = launch(wire::Collective::kBarrier, tag);
    const auto* done = coordinator->last<wire::Done>();
    ASSERT_NE(done, nullptr);
    ASSERT_EQ(done->key, key(tag));
    coordinator->say(wire::Commit{done->key, done->attempt, done->hash, false});
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
};

struct Lie {
  std::string name;
  std::function<void(Peer3&)> tell;
  std::string reason;  // empty: it is let pass
};

void expect_left(const Lie& lie, bool joined = true) {
  SCOPED_TRACE(lie.name);
  Peer3 run(joined);
  lie.tell(run);
  run.me.run();
  ASSERT_TRUE(run.me.run_over) << "it goes on";
  EXPECT_EQ(run.me.run_over->status, Status::kProtocolError);
  EXPECT_NE(run.me.run_over->text.find(lie.reason), std::string::npos) << run.me.run_over->text;
  EXPECT_TRUE(run.me.all_calls_over());
  EXPECT_TRUE(run.coordinator->shown_out());
  EXPECT_EQ(run.me.footprint().streams, 0U);
  EXPECT_EQ(run.me.footprint().remembered, 0U);
  EXPECT_NE(run.me.outcome(run.launch(wire::Collective::kBarrier))->status, Status::kOk);
}

TEST(LyingCoordinator, IsLeftWithTheReason) {
  const auto proposes = [](const std::function<void(wire::Propose&)>& change) {
    return [change](Peer3& r) {
      wire::Propose propose = r.loss_of(kHigh);
      change(propose);
      r.propose(propose);
    };
  };
  const Lie lies[] = {
      {"a view without the peer", proposes([](wire::Propose& p) { p.view = view_of(2, 1, {kLow}); }),
       "without this peer"},
      {"a view that lost the peer", proposes([](wire::Propose& p) { p.lost = {kMe}; }), "without this peer"},
      {"leaving that nobody asked for", proposes([](wire::Propose& p) { p.left = {kMe}; }), "without this peer"},
      {"an admission without the peer", proposes([](wire::Propose& p) { p.view = view_of(2, 2, {kLow}); }),
       "without this peer"},
      {"twice the same member", proposes([](wire::Propose& p) {
         p.view = view_of(2, 1, {kLow, kMe, kLow});
       }),
       "p1 in it twice"},
      {"a member without an id", proposes([](wire::Propose& p) {
         p.view = view_of(2, 1, {PeerId{}, kMe});
       }),
       "no id"},
      {"no address", proposes([](wire::Propose& p) { p.view.members[0].address = {}; }), "listens nowhere"},
      {"no port", proposes([](wire::Propose& p) { p.view.members[0].address.port = 0; }), "listens nowhere"},
      {"groups mixed up", proposes([](wire::Propose& p) {
         p.view = view_of(2, 1, {kLow, kMe, kHigh});
         p.view.members[1].group = GroupId{1};
       }),
       "groups are mixed up"},
      {"another group", proposes([](wire::Propose& p) {
         for (auto& m : p.view.members) m.group = GroupId{1};
       }),
       "another group"},
      {"a stranger in the ring", proposes([](wire::Propose& p) {
         p.view = view_of(2, 1, {kMe, PeerId{4, 4}});
       }),
       "without an admission"},
      {"an older view", proposes([](wire::Propose& p) { p.view.number.value = 0; }), "view 0 after 1"},
      {"the same view with other members", proposes([](wire::Propose& p) {
         p.lost = {};
         p.view.number.value = 1;
       }),
       "other members"},
      {"another view without a reason", proposes([](wire::Propose& p) { p.lost = {}; }), "view 2 after 1"},
      {"an older cohort", proposes([](wire::Propose& p) {
         p.view = view_of(2, 0, {kLow, kMe});
       }),
       "cohort 0 after 1"},
      {"an older proposal", proposes([](wire::Propose& p) { p.number.value = 0; }), "proposal 0 after 1"},
      {"another key", proposes([](wire::Propose& p) { p.link_key = {}; }), "changed the key"},
      {"the same proposal twice",
       [](Peer3& r) {
         const auto p = r.loss_of(kHigh);
         r.propose(p);
         r.propose(p);
       },
       "proposal 2 after 2"},
      {"installs nothing", [](Peer3& r) { r.coordinator->say(wire::Install{ProposalNumber{1}}); }, "had not proposed"},
      {"installs another",
       [](Peer3& r) {
         r.propose(r.loss_of(kHigh));
         r.coordinator->say(wire::Install{ProposalNumber{9}});
       },
       "had not proposed"},
      {"commits no round",
       [](Peer3& r) {
         r.coordinator->say(wire::Commit{r.key(), Generation{1}, 0, false});
       },
       "not finished"},
      {"commits too early",
       [](Peer3& r) {
         r.launch(wire::Collective::kAllReduce);
         r.coordinator->say(wire::Commit{r.key(), Generation{1}, 0, false});
       },
       "not finished"},
      {"commits twice",
       [](Peer3& r) {
         r.expect_alive(7);
         r.coordinator->say(wire::Commit{r.key(), Generation{1}, 0, false});
       },
       "not finished"},
      {"commits another attempt",
       [](Peer3& r) {
         r.launch(wire::Collective::kBarrier);
         r.coordinator->say(wire::Commit{r.key(), Generation{2}, 0, false});
       },
       "not finished"},
      {"commits another result",
       [](Peer3& r) {
         r.launch(wire::Collective::kBarrier);
         r.coordinator->say(wire::Commit{r.key(), Generation{1}, 77, false});
       },
       "another result"},
      {"commits too early by a verdict",
       [](Peer3& r) {
         r.launch(wire::Collective::kAllReduce);
         auto p = r.loss_of(kHigh);
         p.verdicts = {{r.key(), Generation{1}, Status::kOk, 0, ""}};
         r.install(p);
       },
       "not finished"},
      {"two verdicts that contradict each other",
       [](Peer3& r) {
         r.launch(wire::Collective::kAllReduce);
         auto p = r.loss_of(kHigh);
         p.verdicts = {{r.key(), Generation{1}, Status::kOk, 0, ""},
                       {r.key(), Generation{1}, Status::kAborted, 0, "no"}};
         r.install(p);
       },
       "not finished"},
      {"ends an admit that nobody called", [](Peer3& r) { r.coordinator->say(wire::AdmitEnded{}); },
       "has not given up"},
      {"ends an admit that waits",
       [](Peer3& r) {
         r.me.admit();
         r.coordinator->say(wire::AdmitEnded{});
       },
       "has not given up"},
      {"lets go", [](Peer3& r) { r.coordinator->say(wire::Left{}); }, "did not leave"},
      {"sends tensor data",
       [](Peer3& r) {
         r.coordinator->say_segment({r.key(), Generation{1}, {}, {}, 64}, std::byte{1}, 0);
       },
       "tensor data"},
      {"sends noise", [](Peer3& r) { r.coordinator->say_bytes(std::vector<std::byte>(100, std::byte{0xa5})); },
       "does not speak"},
      {"evicts with ok",
       [](Peer3& r) {  // by hand: nothing of ours says it
         std::vector<std::byte> frame;
         wire::encode(wire::Evicted{}, Term{1}, frame);
         frame[wire::kHeaderBytes] = std::byte{0};
         const auto body = std::span(frame).subspan(wire::kHeaderBytes);
         wire::FrameHeader header{wire::type_of(wire::Evicted{}), static_cast<std::uint32_t>(body.size()), Term{1}, 0};
         header.checksum = wire::frame_checksum(header, body);
         wire::encode(header, std::span(frame).first<wire::kHeaderBytes>());
         r.coordinator->say_bytes(frame);
       },
       "must not be ok"},
  };
  for (const Lie& lie : lies) expect_left(lie);
}

TEST(LyingCoordinator, SaysWhatOnlyOthersSay) {
  for (const wire::Message& message : test::sample_messages()) {
    const bool its_own =
        std::holds_alternative<wire::Heartbeat>(message) || std::holds_alternative<wire::Pending>(message) ||
        std::holds_alternative<wire::Admitting>(message) || std::holds_alternative<wire::Refused>(message) ||
        std::holds_alternative<wire::Evicted>(message) || std::holds_alternative<wire::Segment>(message);
    if (its_own) continue;
    expect_left({std::string(wire::name_of_type(wire::type_of(message))),
                 [&](Peer3& r) { r.coordinator->say(message); }, "the coordinator "});
  }
}

TEST(LyingCoordinator, GreetsBadly) {
  const auto waits = [](Duration heartbeat, Duration silence) {
    return [=](Peer3& r) { r.coordinator->say(wire::Waiting{address_of(5), heartbeat, silence}); };
  };
  const Lie lies[] = {
      {"no heartbeat", waits({}, seconds(1)), "makes no sense"},
      {"a heartbeat per nanosecond", waits(nanoseconds(1), seconds(1)), "makes no sense"},
      {"a silence shorter than a heartbeat", waits(seconds(2), seconds(1)), "makes no sense"},
      {"a peer's greeting", [](Peer3& r) { r.coordinator->say(wire::LinkWelcome{}); }, "address of a peer"},
      {"a proposal", [](Peer3& r) { r.propose(r.proposal(view_of(1, 1, {kMe}))); }, "address of a peer"},
      {"a view of nobody",
       [](Peer3& r) {
         r.coordinator->say(wire::Waiting{address_of(5), milliseconds(500), seconds(5)});
         r.propose(r.proposal(view_of(0, 0, {})));
       },
       "without this peer"},
      {"a view that is no admission",
       [](Peer3& r) {
         r.coordinator->say(wire::Waiting{address_of(5), milliseconds(500), seconds(5)});
         r.install(r.proposal(view_of(0, 0, {kMe})));
       },
       "other members"},
  };
  for (const Lie& lie : lies) expect_left(lie, false);
}

TEST(LyingCoordinator, WhatDoesNoHarmIsLetPass) {
  const Lie passes[] = {
      {"an older term", [](Peer3& r) { r.coordinator->say(wire::Evicted{}, Term{0}); }, ""},
      {"an admit of nobody",
       [](Peer3& r) {
         for (std::uint64_t i = 0; i < 5000; ++i) r.coordinator->say(wire::Admitting{PeerId{77, i}, CohortId{1}, {}});
       },
       ""},
      {"an admit in no cohort",
       [](Peer3& r) {
         r.coordinator->say(wire::Admitting{kLow, CohortId{9}, {}});
       },
       ""},
      {"so many wait", [](Peer3& r) { r.coordinator->say(wire::Pending{UINT32_MAX}); }, ""},
      {"verdicts on rounds that nobody has",
       [](Peer3& r) {
         wire::Propose p = r.proposal(view_of(1, 1, {kLow, kMe, kHigh}));
         for (std::uint32_t i = 0; i < kMaxVerdicts; ++i)
           p.verdicts.push_back({r.key(5000, i), Generation{i}, Status::kAborted, 0, ""});
         for (std::uint32_t i = 0; i < kMaxVerdicts; ++i)
           p.kept.push_back({CohortId{i % 3}, GroupId{i % 2}, Tag{1}, i});
         r.install(p);
         p.number.value = ++r.proposals;
         for (auto& verdict : p.verdicts) verdict.key.tag.value = 6000;
         r.install(p);
         EXPECT_LE(r.me.footprint().remembered, kMaxRememberedOutcomes);
       },
       ""},
  };
  for (const Lie& lie : passes) {
    SCOPED_TRACE(lie.name);
    Peer3 run;
    lie.tell(run);
    run.me.run();
    run.expect_alive();
  }
}

// Found by reading: where rounds are asked for again in the next cohort by themselves, a leaver asked, too, and stopped.
TEST(LyingCoordinator, OrAnHonestOneClosesALeaversLastRound) {
  Peer3 run(true, true);
  const CallId call = run.launch(wire::Collective::kAllReduce);
  const CallId leave = run.me.leave();
  run.me.run();
  wire::Propose cut = run.proposal(view_of(2, 1, {kLow, kHigh}));
  cut.left = {kMe};
  cut.kept = {run.key()};
  run.install(cut);
  wire::Propose admission = run.proposal(view_of(3, 3, {kLow, kHigh}));
  admission.verdicts = {{run.key(), Generation{1}, Status::kCohortClosed, 0, "closed"}};
  run.install(admission);
  ASSERT_NE(run.me.outcome(call), nullptr);
  EXPECT_EQ(run.me.outcome(call)->status, Status::kCohortClosed);
  run.coordinator->say(wire::Left{});
  run.me.run();
  EXPECT_EQ(run.me.outcome(leave)->status, Status::kOk);
}

// ---- neighbours ----

wire::Segment segment(wire::Phase phase, std::uint32_t index, std::uint32_t length = 16) {
  return {Peer3::key(), Generation{1}, phase, SegmentIndex{index}, length};
}
constexpr auto kSum = wire::Phase::kReduceScatter;
constexpr auto kFinal = wire::Phase::kAllGather;

// The peer runs an all-reduce of 12 floats in {low, me, high}: three segments of 16 bytes. Low owes it the sums of 1 and 2.
void expect_stream(const Lie& lie, FarEnd* Peer3::*neighbour) {
  SCOPED_TRACE(lie.name);
  Peer3 run;
  const CallId call = run.launch(wire::Collective::kAllReduce);
  ASSERT_NE(run.low->last<wire::Ready>(), nullptr);
  lie.tell(run);
  run.me.run();
  EXPECT_EQ((run.*neighbour)->shown_out(), !lie.reason.empty());
  if (!lie.reason.empty()) {
    bool told = false;
    for (const trace::Event& event : run.me.events) told = told || event.text.find(lie.reason) != std::string::npos;
    EXPECT_TRUE(told);
  }
  run.expect_alive();
  // The round itself is not over yet; it is retried without the liar.
  EXPECT_EQ(run.me.outcome(call), nullptr);
  run.install(run.loss_of(neighbour == &Peer3::low ? kLow : kHigh));
  EXPECT_EQ(run.me.outcome(call), nullptr);
  run.coordinator->say(wire::Evicted{});
  run.me.run();
  EXPECT_TRUE(run.me.all_calls_over());
  EXPECT_EQ(run.me.footprint().streams, 0U);
}

TEST(LyingNeighbour, SegmentsThatNoRoundExpectsEndTheirStream) {
  const auto sends = [](const std::vector<wire::Segment>& segments, std::uint64_t checksum = 0) {
    return [=](Peer3& r) {
      for (const wire::Segment& s : segments) r.low->say_segment(s, std::byte{1}, checksum);
    };
  };
  const auto with = [](auto change) {
    wire::Segment s = segment(kSum, 2);
    change(s);
    return s;
  };
  const Lie lies[] = {
      {"beyond the last", sends({segment(kSum, 3)}), "no round expects"},
      {"far beyond the last", sends({segment(kSum, kMaxSegments - 1)}), "no round expects"},
      {"one that starts here", sends({segment(kSum, 0)}), "no round expects"},
      {"the final of our own chunk", sends({segment(kFinal, 1)}), "no round expects"},
      {"too long", sends({segment(kSum, 2, 17)}), "no round expects"},
      {"too short", sends({segment(kSum, 2, 15)}), "no round expects"},
      {"empty", sends({segment(kSum, 2, 0)}), "no round expects"},
      {"as long as can be", sends({segment(kSum, 2, kMaxSegmentBytes)}), "no round expects"},
      {"a final before its sum", sends({segment(kFinal, 2)}), "no round expects"},
      {"a final before our part of it has gone", sends({segment(kFinal, 0)}), "no round expects"},
      {"a wrong checksum", sends({segment(kSum, 2)}, 1), "checksum is wrong"},
      {"a message of others", [](Peer3& r) { r.low->say(wire::Pending{1}); }, "neighbours do not send"},
      {"a greeting again",
       [](Peer3& r) {
         r.low->say(wire::Link{kLow, kMe, {}, 1, kKey});
       },
       "neighbours do not send"},
      {"noise", [](Peer3& r) { r.low->say_bytes(std::vector<std::byte>(100, std::byte{0xa5})); }, "header"},
      {"of a round that nobody has launched", sends({with([](auto& s) { s.key.tag.value = 8; })}), ""},
      {"of another cohort", sends({with([](auto& s) { s.key.cohort.value = 8; })}), ""},
      {"of another group", sends({with([](auto& s) { s.key.group.value = 8; })}), ""},
      {"of an older attempt", sends({with([](auto& s) { s.attempt.value = 0; })}), ""},
      {"of an attempt to come", sends({with([](auto& s) { s.attempt.value = 2; })}), ""},
      {"of an older term",
       [](Peer3& r) {
         r.low->say(wire::BlockSize{r.key(), Generation{1}, Rank{2}, 4}, Term{0});
       },
       ""},
      {"a size where none is wanted",
       [](Peer3& r) {
         r.low->say(wire::BlockSize{r.key(), Generation{1}, Rank{2}, 4});
       },
       ""},
      {"taken back", [](Peer3& r) { r.low->say_segment(segment(kSum, 2), std::byte{1}, 5, true); }, ""},
  };
  for (const Lie& lie : lies) expect_stream(lie, &Peer3::low);
}

TEST(LyingNeighbour, AnnouncementsThatFitNoRoundEndTheirStream) {
  const auto announces = [](auto change) {
    return [=](Peer3& r) {
      wire::Ready ready = *r.low->last<wire::Ready>();  // what it says itself is what fits
      change(ready);
      r.high->say(ready);
    };
  };
  const Lie lies[] = {
      {"a bitmap that is too long", announces([](auto& ready) {
         ready.have = {0, 0};
       }),
       "does not fit its round"},
      {"a bitmap as long as can be", announces([](auto& ready) { ready.have.resize(4096); }), "does not fit its round"},
      {"bits beyond the last segment", announces([](auto& ready) { ready.have = {std::uint64_t{1} << 6U}; }),
       "does not fit its round"},
      {"another group's round", announces([](auto& ready) { ready.key.group.value = 3; }), "another group"},
      {"more rounds than can be in flight",
       [](Peer3& r) {
         wire::Ready ready = *r.low->last<wire::Ready>();
         for (std::uint64_t i = 0; i < 600; ++i) {
           ready.key.tag.value = 50'000 + i;
           r.high->say(ready);
         }
       },
       "more announcements"},
      {"everything is there already", announces([](auto& ready) { ready.have = {0x3f}; }), ""},
      {"an older attempt", announces([](auto& ready) { ready.attempt.value = 0; }), ""},
      {"an attempt to come", announces([](auto& ready) { ready.attempt.value = 9; }), ""},
      {"an older cohort", announces([](auto& ready) { ready.key.cohort.value = 0; }), ""},
      {"a round not launched yet", announces([](auto& ready) {
         ready.key.tag.value = 8;
         ready.have = {1, 2, 3};
       }),
       ""},
      {"twice",
       [](Peer3& r) {
         const wire::Ready ready = *r.low->last<wire::Ready>();
         r.high->say(ready);
         r.high->say(ready);
       },
       ""},
  };
  for (const Lie& lie : lies) expect_stream(lie, &Peer3::high);
}

// What came twice is folded once.
TEST(LyingNeighbour, ASegmentThatComesTwiceIsTakenOnce) {
  Peer3 run;
  run.launch(wire::Collective::kAllReduce);
  run.high->say(*run.low->last<wire::Ready>());
  const std::vector<std::byte> payload(16, std::byte{1});
  std::vector<std::byte> frame;
  for (int i = 0; i < 3; ++i) run.low->say_segment(segment(kSum, 2), std::byte{1}, checksum(payload));
  run.me.run();
  EXPECT_FALSE(run.low->shown_out());
  EXPECT_EQ(run.high->segments_heard(), 2U);  // its own, and one sum
  run.expect_alive();
}

TEST(LyingNeighbour, GreetsBadly) {
  const auto is_refused = [](const wire::Link& link) {
    Peer3 run;
    FarEnd& end = run.me.streams.accept(address_of(1));
    end.greet();
    end.say(link);
    run.me.run();
    run.expect_alive();
    return end.last<wire::Refused>() != nullptr && end.shown_out();
  };
  EXPECT_TRUE(is_refused({kLow, kHigh, {}, 1, kKey}));               // meant for somebody else
  EXPECT_TRUE(is_refused({kHigh, kMe, {}, 1, kKey}));                // it is we who dial
  EXPECT_TRUE(is_refused({kMe, kMe, {}, 1, kKey}));                  // ourselves
  EXPECT_FALSE(is_refused({PeerId{0, 1}, kMe, {}, 1, kKey}));        // nobody that is known yet: parked
  EXPECT_FALSE(is_refused({kLow, kMe, StripeIndex{15}, 16, kKey}));  // begins the link anew
}

// Found by reading: one stream with a number too many made the peer report a link as broken that was whole.
TEST(LyingNeighbour, AnotherNumberOfStripesBeginsTheLinkAnew) {
  Peer3 run;
  FarEnd& other = run.dial_in(kLow, 15, 16);
  EXPECT_NE(other.last<wire::LinkWelcome>(), nullptr);
  EXPECT_TRUE(run.low->shown_out());
  run.low = &run.dial_in(kLow);
  EXPECT_NE(run.low->last<wire::LinkWelcome>(), nullptr);
  EXPECT_TRUE(other.shown_out());
  for (int i = 0; i < 100; ++i) {  // longer than a link may be broken
    for (FarEnd* end : {run.low, run.high, run.coordinator}) end->say(wire::Heartbeat{});
    run.me.pass(seconds(1));
    run.me.run();
  }
  EXPECT_EQ(run.coordinator->last<wire::LinkBroken>(), nullptr);
  run.expect_alive();
}

TEST(LyingNeighbour, OneThatKeepsBreakingTheProtocolIsReported) {
  Peer3 run;
  for (int i = 0; i < 20 && run.coordinator->last<wire::LinkBroken>() == nullptr; ++i) {
    run.low->say(wire::Pending{1});
    run.me.run();
    EXPECT_TRUE(run.low->shown_out());
    run.low = &run.dial_in(kLow);
  }
  ASSERT_NE(run.coordinator->last<wire::LinkBroken>(), nullptr);
  EXPECT_EQ(run.coordinator->last<wire::LinkBroken>()->other, kLow);
  EXPECT_NE(run.coordinator->last<wire::LinkBroken>()->text.find("breaks the protocol"), std::string::npos);
  run.expect_alive();
}

// An attacker found it: who is a member and where it listens is told to everybody, and a name was all that a stream had to say.
TEST(Stranger, IsRefusedWhomeverItNames) {
  Peer3 run;
  const CallId call = run.launch(wire::Collective::kAllReduce);
  for (int i = 0; i < 50; ++i) {
    const bool anew = i % 2 == 1;
    FarEnd& thief =
        run.dial_in(kLow, anew ? 15 : 0, anew ? 16 : 1, i < 25 ? LinkKey{} : LinkKey{kKey.high, kKey.low + 1});
    EXPECT_TRUE(thief.shown_out());
    EXPECT_EQ(thief.last<wire::LinkWelcome>(), nullptr);
    ASSERT_NE(thief.last<wire::Refused>(), nullptr);
    EXPECT_NE(thief.last<wire::Refused>()->text.find("only its members"), std::string::npos);
    EXPECT_FALSE(run.low->shown_out());
  }
  EXPECT_EQ(run.coordinator->last<wire::LinkBroken>(), nullptr);
  EXPECT_EQ(run.me.outcome(call), nullptr);
  run.expect_alive();
}

TEST(Stranger, ThatComesBeforeTheKeyStandsInNobodysWay) {
  Peer3 run(false);
  FarEnd& low = run.dial_in(kLow);  // it has been told already that we are in
  FarEnd& thief = run.dial_in(kLow, 0, 1, LinkKey{});
  EXPECT_FALSE(low.shown_out());
  run.coordinator->say(wire::Waiting{address_of(5), milliseconds(500), seconds(60)});
  run.install(run.proposal(view_of(1, 1, {kLow, kMe, kHigh})));
  EXPECT_NE(low.last<wire::LinkWelcome>(), nullptr);
  EXPECT_TRUE(thief.shown_out());
  EXPECT_EQ(thief.last<wire::LinkWelcome>(), nullptr);
  run.expect_alive();
}

// ---- the sizes of an all-gather come from others ----

struct Blocks {
  std::uint64_t from_low;
  std::uint64_t from_high;
  Status status;
  const char* reason;
};

TEST(LyingNeighbour, BlocksThatCannotBeAreRefused) {
  const Blocks cases[] = {
      {48, 1000, Status::kBufferTooSmall, "needs 1096"},
      {48, std::uint64_t{1} << 63U, Status::kBufferTooSmall, "needs"},
      {std::uint64_t{1} << 63U, std::uint64_t{1} << 63U, Status::kBufferTooSmall, "needs"},
      {UINT64_MAX - 3, UINT64_MAX - 3, Status::kBufferTooSmall, "needs"},
      {48, 7, Status::kProtocolError, "no whole elements"},
  };
  for (const Blocks& blocks : cases) {
    SCOPED_TRACE(blocks.from_high);
    Peer3 run;
    run.launch(wire::Collective::kAllGather);
    run.high->say(*run.low->last<wire::Ready>());
    run.low->say(wire::BlockSize{run.key(), Generation{1}, Rank{7}, 4});  // no such rank
    run.low->say(wire::BlockSize{run.key(), Generation{1}, Rank{0}, blocks.from_low});
    run.low->say(wire::BlockSize{run.key(), Generation{1}, Rank{2}, blocks.from_high});
    run.me.run();
    const auto* stop = run.coordinator->last<wire::StopRound>();
    ASSERT_NE(stop, nullptr);
    EXPECT_EQ(stop->status, blocks.status);
    EXPECT_NE(stop->text.find(blocks.reason), std::string::npos) << stop->text;
    // Its neighbours go on with it as if it could: nothing lands, nothing is copied.
    wire::Ready ready = *run.low->last<wire::Ready>();
    ready.landing = true;
    run.high->say(ready);
    run.low->say_segment(segment(kFinal, 0, 48), std::byte{1}, 0);
    run.me.run();
    run.expect_alive();
  }
}

// Found by reading: where one peer's buffer was too small, its neighbour's announcement made it write beyond the end.
TEST(LyingNeighbour, NorAnHonestOneWritesIntoABufferThatIsTooSmall) {
  Peer3 run;
  Request request;
  request.collective = wire::Collective::kReduceScatter;
  request.type = DataType::kF32;
  request.tag = Tag{7};
  const CallId call = run.me.launch(request, 12, 2);
  run.me.run();
  ASSERT_NE(run.coordinator->last<wire::StopRound>(), nullptr);
  EXPECT_EQ(run.coordinator->last<wire::StopRound>()->status, Status::kBufferTooSmall);
  run.low->hang_up();  // and comes again, so that the peer announces what it runs
  run.me.run();
  run.low = &run.dial_in(kLow);
  ASSERT_NE(run.low->last<wire::Ready>(), nullptr);
  EXPECT_FALSE(run.low->last<wire::Ready>()->landing);
  const std::vector<std::byte> payload(16, std::byte{1});
  for (const std::uint32_t index : {1U, 2U})
    run.low->say_segment(segment(kSum, index), std::byte{1}, checksum(payload));
  run.me.run();
  EXPECT_EQ(run.me.outcome(call), nullptr);
  run.expect_alive();
}

}  // namespace
}  // namespace lockstep::peer
