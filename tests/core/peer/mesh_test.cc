// A neighbour's invalid message ends its stream and nothing else. A stranger gets no link.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/kernels/checksum.h"
#include "tests/core/peer/peer3.h"

namespace lockstep::peer {
namespace {

wire::Segment segment(wire::Phase phase, std::uint32_t index, std::uint32_t length = 16) {
  return {Peer3::key(), AttemptId{1}, phase, SegmentIndex{index}, length};
}
constexpr auto kSum = wire::Phase::kReduceScatter;
constexpr auto kFinal = wire::Phase::kAllGather;

// The peer runs an all-reduce of 12 floats in {low, me, high}: three segments of 16 bytes. `low` must send the sums of
// segments 1 and 2.
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
  // The round continues: it is attempted again without the liar.
  EXPECT_EQ(run.me.outcome(call), nullptr);
  run.install(run.loss_of(neighbour == &Peer3::low ? kLow : kHigh));
  EXPECT_EQ(run.me.outcome(call), nullptr);
  run.coordinator->say(wire::Evicted{});
  run.me.run();
  EXPECT_TRUE(run.me.all_calls_over());
  EXPECT_EQ(run.me.footprint().streams, 0U);
}

TEST(LyingNeighbour, UnexpectedSegmentsEndTheirStream) {
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
      {"another greeting",
       [](Peer3& r) {
         r.low->say(wire::Link{kLow, kMe, {}, 1, LinkKey{1, 2}});
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
         r.low->say(wire::RankParameter{r.key(), Generation{1}, Rank{2}, 4}, Term{0});
       },
       ""},
      {"a size where none is wanted",
       [](Peer3& r) {
         r.low->say(wire::RankParameter{r.key(), Generation{1}, Rank{2}, 4});
       },
       ""},
      {"taken back", [](Peer3& r) { r.low->say_segment(segment(kSum, 2), std::byte{1}, 5, true); }, ""},
  };
  for (const Lie& lie : lies) expect_stream(lie, &Peer3::low);
}

TEST(LyingNeighbour, InvalidAnnouncementsEndTheirStream) {
  const auto announces = [](auto change) {
    return [=](Peer3& r) {
      wire::Ready ready = *r.low->last<wire::Ready>();  // a copy of a valid message
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
         for (std::uint64_t i = 0; i <= std::uint64_t{2} * kMaxRoundsInFlight; ++i) {
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

// Rule 31.
TEST(LyingNeighbour, ARepeatedSegmentIsFoldedOnce) {
  Peer3 run;
  run.launch(wire::Collective::kAllReduce);
  run.high->say(*run.low->last<wire::Ready>());
  const std::vector<std::byte> payload(16, std::byte{1});
  std::vector<std::byte> frame;
  for (int i = 0; i < 3; ++i) run.low->say_segment(segment(kSum, 2), std::byte{1}, checksum(payload));
  run.me.run();
  EXPECT_FALSE(run.low->shown_out());
  EXPECT_EQ(run.high->segments_heard(), 2U);  // its own segment, and one sum
  run.expect_alive();
}

// Rule 35: the buffer of a program changed while it was sent. The link is as good as ever.
TEST(LyingNeighbour, WrongChecksumsAreNoFaultOfTheLink) {
  Peer3 run;
  for (std::uint64_t tag = 100; tag < 120; ++tag) {
    run.launch(wire::Collective::kAllReduce, tag);
    for (int i = 0; i < 3; ++i) {
      wire::Segment wrong = segment(kSum, 2);
      wrong.key.tag.value = tag;
      run.low->say_segment(wrong, std::byte{1}, 1);
      run.me.run();
      EXPECT_TRUE(run.low->shown_out());
      run.low = &run.dial_in(kLow);
    }
    const auto* const stop = run.coordinator->last<wire::StopRound>();
    ASSERT_NE(stop, nullptr);
    EXPECT_EQ(stop->key.tag.value, tag);
    EXPECT_EQ(stop->status, Status::kInternal);
    EXPECT_NE(stop->text.find("(p1 sent to me)"), std::string::npos) << stop->text;
  }
  EXPECT_EQ(run.coordinator->last<wire::LinkBroken>(), nullptr);
  run.expect_alive();
}

TEST(LyingNeighbour, AnInvalidGreetingIsRefused) {
  const auto is_refused = [](const wire::Link& link) {
    Peer3 run;
    FarEnd& end = run.me.streams.accept(address_of(1));
    end.greet();
    end.say(link);
    run.me.run();
    run.expect_alive();
    return end.last<wire::Refused>() != nullptr && end.shown_out();
  };
  EXPECT_TRUE(is_refused({kLow, kHigh, {}, 1, kKey}));               // addressed to another peer
  EXPECT_TRUE(is_refused({kHigh, kMe, {}, 1, kKey}));                // this peer dials that link
  EXPECT_TRUE(is_refused({kMe, kMe, {}, 1, kKey}));                  // from this peer itself
  EXPECT_FALSE(is_refused({PeerId{0, 1}, kMe, {}, 1, kKey}));        // an unknown peer: the link waits
  EXPECT_FALSE(is_refused({kLow, kMe, StripeIndex{15}, 16, kKey}));  // the link begins again
}

// One stream with a wrong number of stripes made the peer report an intact link as broken. The side that dials may want
// more stripes than before (rule 60).
TEST(LyingNeighbour, AnotherNumberOfStripesIsNoBrokenLink) {
  Peer3 run;
  FarEnd& other = run.dial_in(kLow, 15, 16);
  EXPECT_NE(other.last<wire::LinkWelcome>(), nullptr);
  EXPECT_FALSE(run.low->shown_out());
  FarEnd& first = *run.low;
  run.low = &run.dial_in(kLow);
  EXPECT_NE(run.low->last<wire::LinkWelcome>(), nullptr);
  EXPECT_TRUE(first.shown_out()) << "a newer stream for its stripe";
  other.hang_up();
  run.pass_heartbeats(seconds(100));  // longer than a link may stay broken
  EXPECT_EQ(run.coordinator->last<wire::LinkBroken>(), nullptr);
  run.expect_alive();
}

// So many streams of `low`, one after the other, bring a message that neighbours do not send.
void violate_protocol(Peer3& run, int times) {
  for (int i = 0; i < times; ++i) {
    EXPECT_EQ(run.coordinator->last<wire::LinkBroken>(), nullptr) << i;
    run.low->say(wire::Pending{1});
    run.me.run();
    EXPECT_TRUE(run.low->shown_out());
    run.low = &run.dial_in(kLow);
  }
}

TEST(LyingNeighbour, ANeighbourThatViolatesTheProtocolEightTimesIsReported) {
  Peer3 run;
  violate_protocol(run, 8);
  ASSERT_NE(run.coordinator->last<wire::LinkBroken>(), nullptr);
  EXPECT_EQ(run.coordinator->last<wire::LinkBroken>()->other, kLow);
  EXPECT_NE(run.coordinator->last<wire::LinkBroken>()->text.find("breaks the protocol"), std::string::npos);
  run.expect_alive();
}

TEST(LyingNeighbour, ViolationsAreForgottenAfterTheTimeOutOfALink) {
  for (const Duration more : {Duration{}, kTick}) {
    Peer3 run;
    violate_protocol(run, 7);
    run.pass_heartbeats(options().link_timeout + more);
    violate_protocol(run, 1);
    EXPECT_EQ(run.coordinator->last<wire::LinkBroken>() == nullptr, more > Duration{});
  }
}

// The ids and addresses of members are public: naming a member must not be enough to be accepted.
TEST(Stranger, IsRefusedWhateverPeerItNames) {
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

// A crowd of strangers fills the port repeatedly. The link of a neighbour stays, and a new stream of the neighbour is
// accepted.
TEST(Stranger, ACrowdEvictsNoNeighbour) {
  Peer3 run;
  std::vector<FarEnd*> crowd;
  for (std::uint32_t i = 0; i < 3 * kMaxStrangers; ++i) {
    crowd.push_back(&run.me.streams.accept(address_of(9)));
    run.me.run();
    EXPECT_LE(run.me.footprint().strangers, kMaxStrangers + 2 * 2U);
  }
  EXPECT_TRUE(crowd.front()->shown_out());
  EXPECT_FALSE(crowd.back()->shown_out());
  EXPECT_FALSE(run.low->shown_out());
  run.low->hang_up();
  run.me.run();
  FarEnd& again = run.dial_in(kLow);
  EXPECT_NE(again.last<wire::LinkWelcome>(), nullptr);
  for (std::uint32_t i = 0; i < 2 * kMaxStrangers; ++i) run.me.streams.accept(address_of(9));
  run.me.run();
  EXPECT_FALSE(again.shown_out());
  run.expect_alive();
}

// A stream that has no link after the time-out of a dial is closed.
TEST(Stranger, AStreamThatDoesNotGreetIsClosedAfterTheTimeOutOfADial) {
  enum class Stream { kAccepted, kDialled, kOpened };
  for (const Stream which : {Stream::kAccepted, Stream::kDialled, Stream::kOpened}) {
    Peer3 run;
    if (which != Stream::kAccepted) {
      run.high->hang_up();
      run.me.run();
      run.pass_heartbeats(milliseconds(10));
      ASSERT_FALSE(run.me.streams.dialling().empty());
    }
    FarEnd* const end =
        which == Stream::kAccepted ? &run.me.streams.accept(address_of(9)) : run.me.streams.dialling().front();
    if (which == Stream::kOpened) run.me.streams.open(*end);
    run.me.run();
    run.pass_heartbeats(options().dial_timeout - kTick);
    EXPECT_FALSE(end->shown_out());
    run.pass_heartbeats(kTick);
    EXPECT_TRUE(end->shown_out());
  }
}

TEST(Stranger, ThatConnectsBeforeTheKeyIsKnownBlocksNobody) {
  Peer3 run(false);
  FarEnd& low = run.dial_in(kLow);  // `low` has learnt already that this peer is a member
  FarEnd& thief = run.dial_in(kLow, 0, 1, LinkKey{});
  EXPECT_FALSE(low.shown_out());
  run.coordinator->say(wire::Waiting{address_of(5), milliseconds(500), seconds(60)});
  run.install(run.proposal(view_of(1, 1, {kLow, kMe, kHigh})));
  EXPECT_NE(low.last<wire::LinkWelcome>(), nullptr);
  EXPECT_TRUE(thief.shown_out());
  EXPECT_EQ(thief.last<wire::LinkWelcome>(), nullptr);
  run.expect_alive();
}

// A peer that had lost its run kept listening. Its neighbour dialled again and again, and the peer kept streams and a
// timer (promise S11).
TEST(Stranger, ThatConnectsAfterTheRunIsClosedAtOnce) {
  Peer3 run;
  run.coordinator->say(wire::Evicted{});
  run.me.run();
  ASSERT_TRUE(run.me.run_over);
  FarEnd& high = run.me.streams.accept(address_of(1));
  run.me.run();
  EXPECT_TRUE(high.shown_out());
  EXPECT_EQ(run.me.footprint().streams, 0U);
  EXPECT_EQ(run.me.deadline(), kNever);
}

// ---- sizes in an all-gather ----

struct Blocks {
  std::uint64_t from_low;
  std::uint64_t from_high;
  Status status;
  const char* reason;
};

TEST(LyingNeighbour, ImpossibleBlocksAreRefused) {
  const Blocks cases[] = {
      {48, 1000, Status::kBufferTooSmall, "needs 1096"},
      {48, std::uint64_t{1} << 63U, Status::kBufferTooSmall, "needs"},
      {std::uint64_t{1} << 63U, std::uint64_t{1} << 63U, Status::kBufferTooSmall, "needs"},
      {UINT64_MAX - 3, UINT64_MAX - 3, Status::kBufferTooSmall, "needs"},
      {48, 7, Status::kProtocolError, "no whole elements"},
  };
  for (const Blocks& blocks : cases) {
    SCOPED_TRACE(blocks.from_high);
    Peer3 run(options(), {kLow, kMe, kHigh}, true, kFar, false);
    run.launch(wire::Collective::kAllGather);
    run.high->say(*run.low->last<wire::Ready>());
    run.low->say(wire::RankParameter{run.key(), Generation{1}, Rank{7}, 4});  // a rank that does not exist
    run.low->say(wire::RankParameter{run.key(), Generation{1}, Rank{0}, blocks.from_low});
    run.low->say(wire::RankParameter{run.key(), Generation{1}, Rank{2}, blocks.from_high});
    run.me.run();
    const auto* stop = run.coordinator->last<wire::StopRound>();
    ASSERT_NE(stop, nullptr);
    EXPECT_EQ(stop->status, blocks.status);
    EXPECT_NE(stop->text.find(blocks.reason), std::string::npos) << stop->text;
    // The neighbours continue the round: no segment lands, and no byte is copied.
    wire::Ready ready = *run.low->last<wire::Ready>();
    ready.landing = true;
    run.high->say(ready);
    run.low->say_segment(segment(kFinal, 0, 48), std::byte{1}, 0);
    run.me.run();
    run.expect_alive();
  }
}

// The announcement of a neighbour made a peer with a small buffer write beyond the end of the buffer.
TEST(LyingNeighbour, ABufferThatIsTooSmallIsNeverWritten) {
  Peer3 run;
  Request request;
  request.collective = wire::Collective::kReduceScatter;
  request.type = DataType::kF32;
  request.tag = Tag{7};
  const CallId call = run.me.launch(request, 12, 2);
  run.me.run();
  ASSERT_NE(run.coordinator->last<wire::StopRound>(), nullptr);
  EXPECT_EQ(run.coordinator->last<wire::StopRound>()->status, Status::kBufferTooSmall);
  run.low->hang_up();  // `low` dials again, so that the peer repeats its announcements
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

// A peer without free descriptors is evicted. Only its own report can tell the reason.
TEST(Mesh, ABrokenLinkReportSaysWhyTheDialFailed) {
  Peer3 run;
  run.high->hang_up();
  run.me.run();
  const auto is_reported = [&] {  // and not only as a link to avoid
    const auto* const report = run.coordinator->last<wire::LinkBroken>();
    return report != nullptr && !report->avoid;
  };
  while (!is_reported()) {
    run.coordinator->say(wire::Heartbeat{});
    run.low->say(wire::Heartbeat{});
    run.me.pass(run.me.deadline() - run.me.now);
    run.me.run();
    for (FarEnd* dialled : run.me.streams.dialling()) run.me.streams.refuse(*dialled, "Too many open files");
    run.me.run();
  }
  const auto* const report = run.coordinator->last<wire::LinkBroken>();
  EXPECT_EQ(report->other, kHigh);
  EXPECT_EQ(report->text, "no stream to " + address_of(9).text() + " for 60000 ms: Too many open files");
}

}  // namespace
}  // namespace lockstep::peer
