// Rule 51 of docs/protocol.md: streams that bring nearly nothing, beside streams that are slow, silent, or stand still.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/kernels/checksum.h"
#include "tests/core/peer/peer3.h"

namespace lockstep::peer {
namespace {

constexpr Duration kStep = milliseconds(100);

PeerOptions with_default_times(std::uint32_t segment_bytes, std::uint16_t stripes) {
  PeerOptions given = options();
  given.segment_bytes = segment_bytes;
  given.stripes = stripes;
  given.link_silence = PeerOptions{}.link_silence;
  given.link_timeout = PeerOptions{}.link_timeout;
  return given;
}

struct Lines : Peer3 {
  explicit Lines(std::vector<PeerId> ring = {kLow, kMe, kHigh}, std::uint32_t segment_bytes = 1024, bool meshed = true,
                 std::uint16_t stripes = 1)
      : Peer3(with_default_times(segment_bytes, stripes), std::move(ring), true, kFar, meshed) {}

  void pass(Duration time, const std::vector<FarEnd*>& but = {}, Duration step = kStep) {
    pass_heartbeats(time, but, step);
  }
  // How many milliseconds pass until a link is reported, as one to avoid or as broken; -1: none is in 20 s.
  std::int64_t milliseconds_until_reported(bool avoid, const std::vector<FarEnd*>& but = {}) {
    for (std::int64_t passed = 0; passed < 20'000; ++passed) {
      if (report() != nullptr && report()->avoid == avoid) return passed;
      pass(kTick, but, kTick);
    }
    return -1;
  }
  // The stream of this end, which says nothing, is closed after exactly this time.
  void expect_closed_after(Duration time, FarEnd* end) {
    pass(time - kTick, {end}, kTick);
    EXPECT_FALSE(end->shown_out()) << time.ns;
    pass(kTick, {end});
    EXPECT_TRUE(end->shown_out()) << time.ns;
  }
  // The dial to this member that is not answered yet; nullptr: there is none.
  [[nodiscard]] FarEnd* dial_to(PeerId member) const {
    for (FarEnd* end : me.streams.dialling()) {
      if (end->dialled() == address_of(static_cast<std::uint8_t>(member.low))) return end;
    }
    return nullptr;
  }
  // The same, opened.
  FarEnd* open_next(PeerId member) {
    FarEnd* const end = dial_to(member);
    if (end == nullptr) return nullptr;
    me.streams.open(*end);
    me.run();
    return end;
  }
  // Until the next heartbeat to `low`, which says nothing meanwhile.
  void pass_beat() {
    const auto beats = low->count<wire::Heartbeat>();
    for (int ms = 0; low->count<wire::Heartbeat>() == beats && ms < 1000; ++ms) pass(kTick, {low}, kTick);
  }
  // One byte of a heartbeat.
  void drip(FarEnd& from) {
    if (rest.empty()) wire::encode(wire::Heartbeat{}, Term{1}, rest);
    from.say_bytes(std::span(rest).first(1));
    rest.erase(rest.begin());
    me.run();
  }
  [[nodiscard]] const wire::LinkBroken* report() const { return coordinator->last<wire::LinkBroken>(); }
  // The link to this neighbour is reported as broken.
  void expect_nearly_dead(PeerId neighbour) const {
    ASSERT_NE(report(), nullptr);
    EXPECT_EQ(report()->other, neighbour);
    EXPECT_FALSE(report()->avoid);
    EXPECT_NE(report()->text.find("nearly dead"), std::string::npos) << report()->text;
  }

  std::vector<std::byte> rest;
};

constexpr std::int64_t kEightRoundTrips = 8 * fuzz::kRoundTrip.ns / 1'000'000;  // in milliseconds

// The peer has dialled `high`, and `low` has dialled the peer.
constexpr struct Neighbour {
  FarEnd* Peer3::*end = nullptr;
  PeerId id;
} kNeighbours[] = {{&Peer3::low, kLow}, {&Peer3::high, kHigh}};

TEST(LinkProgress, ADrippingLinkIsReportedAtOnce) {
  for (const bool is_low : {true, false}) {
    Lines run;
    run.launch(wire::Collective::kAllReduce);
    run.pass(seconds(2));
    EXPECT_EQ(run.report(), nullptr);
    FarEnd* const end = is_low ? run.low : run.high;
    const Instant began = run.me.now;
    while (run.report() == nullptr && run.me.now - began < seconds(10)) {
      run.drip(*end);
      run.pass(milliseconds(900), {end});
    }
    run.expect_nearly_dead(is_low ? kLow : kHigh);
    EXPECT_LE(run.me.now - began, milliseconds(1800));
    EXPECT_TRUE(end->shown_out());  // and it is opened again: the next ring may still need it
    run.expect_alive();
  }
}

TEST(LinkProgress, ANeighbourThatStandsStillIsOpenedAgainAndNotReportedAsBroken) {
  Lines run;
  run.pass(seconds(3));
  run.pass(milliseconds(1300), {run.low});
  EXPECT_FALSE(run.low->shown_out());
  EXPECT_EQ(run.report(), nullptr);
  run.pass(milliseconds(500), {run.low});
  EXPECT_TRUE(run.low->shown_out());  // three beats are missing
  EXPECT_EQ(run.report(), nullptr);
  run.low = &run.dial_in(kLow);
  EXPECT_NE(run.low->last<wire::LinkWelcome>(), nullptr);
  run.pass(seconds(20));
  EXPECT_EQ(run.report(), nullptr);
}

TEST(LinkProgress, AStripeIsSilentAfterThreeHeartbeatsAndEightRoundTrips) {
  for (const Neighbour& neighbour : kNeighbours) {
    Lines run;
    run.pass(seconds(3));
    FarEnd* const end = run.*neighbour.end;
    run.expect_closed_after(milliseconds(1500 + kEightRoundTrips), end);
  }
}

// Rule 24. The pauses of a stream are known after some signs of progress.
TEST(LinkProgress, AStripeIsSilentAfterThreeOfItsPausesOrFourSeconds) {
  Lines unknown;
  unknown.expect_closed_after(seconds(4), unknown.low);
  for (const auto& [pause, limit] : {std::pair{1300, 3916}, std::pair{1400, 4000}}) {
    Lines run;
    for (int signs = 0; signs < 4; ++signs) {
      run.pass(milliseconds(pause), {run.low});
      run.low->say(wire::Heartbeat{});
      run.me.run();
    }
    run.expect_closed_after(milliseconds(limit), run.low);
  }
}

TEST(LinkProgress, ASilentStripeBesideAWorkingOneHasFourSeconds) {
  Lines run;
  FarEnd* const silent = &run.dial_in(kLow, 1, 2);
  run.low = &run.dial_in(kLow, 0, 2);
  for (int signs = 0; signs < 5; ++signs) {
    silent->say(wire::Heartbeat{});
    run.pass(kStep);
  }
  run.expect_closed_after(seconds(4), silent);
}

TEST(LinkProgress, ALinkWithoutAStreamForEightSecondsIsBroken) {
  for (const Neighbour& neighbour : kNeighbours) {
    Lines run;
    run.launch(wire::Collective::kAllReduce);
    run.pass(seconds(2));
    FarEnd* const end = run.*neighbour.end;
    end->hang_up();
    run.me.run();
    EXPECT_EQ(run.milliseconds_until_reported(false, {end}), 8000);
    EXPECT_EQ(run.report()->other, neighbour.id);
    EXPECT_NE(run.report()->text.find(" for 8000 ms"), std::string::npos) << run.report()->text;
  }
}

// However long its round trips are, a link is broken after 8 s: it is not one to avoid before.
TEST(LinkProgress, ALinkWithLongRoundTripsIsNotOneToAvoidBeforeItIsBroken) {
  Lines run;
  run.launch(wire::Collective::kAllReduce);
  run.high->hang_up();
  run.me.run();
  run.pass(milliseconds(10));
  run.high = run.welcome(kHigh, seconds(2));
  ASSERT_NE(run.high, nullptr);
  run.pass(seconds(2));
  run.high->hang_up();
  run.me.run();
  EXPECT_EQ(run.milliseconds_until_reported(false, {run.high}), 8000);
  EXPECT_EQ(run.coordinator->count<wire::LinkBroken>(), 1U);
}

// Rule 24: a peer whose timer is late by more than a heartbeat stood still itself.
TEST(LinkProgress, ATimerThatIsLateByMoreThanAHeartbeatForgivesSilence) {
  for (const Duration late : {milliseconds(500), milliseconds(500) + kTick}) {
    const bool forgives = late > milliseconds(500);
    Lines link;
    link.pass(seconds(2));
    link.pass(milliseconds(1300), {link.low});
    link.me.pass(link.me.deadline() - link.me.now + late);
    EXPECT_EQ(link.low->shown_out(), !forgives);

    Lines session;
    session.pass(seconds(59) + milliseconds(700), {session.coordinator});
    session.me.pass(session.me.deadline() - session.me.now + late);
    EXPECT_EQ(session.me.run_over.has_value(), !forgives);
  }
}

// The second stripe never comes up. The streams are reported although the first stripe works.
TEST(LinkProgress, ThreeStreamsInARowThatDripWhileTheyGreetAreReported) {
  Lines run({kLow, kMe, kHigh}, 1024, true, 2);
  run.launch(wire::Collective::kAllReduce);
  run.pass(seconds(2));
  int dripped = 0;
  for (; run.report() == nullptr && dripped < 6; ++dripped) {
    FarEnd* const next = run.open_next(kHigh);
    ASSERT_NE(next, nullptr);
    run.pass(milliseconds(800));
    next->say_bytes(std::vector<std::byte>(1));  // of a preamble
    run.pass(milliseconds(700));
    EXPECT_TRUE(next->shown_out());
  }
  EXPECT_EQ(dripped, 3);
  run.expect_nearly_dead(kHigh);
  EXPECT_FALSE(run.high->shown_out());
}

// The second look at a stripe was due when the stripe had counted as silent already, and nobody was told.
TEST(LinkProgress, ThreeStreamsInARowThatDripForFourSecondsBesideAWorkingStripeAreReported) {
  Lines run;
  run.launch(wire::Collective::kAllReduce);
  run.low = &run.dial_in(kLow, 0, 2);
  int dripped = 0;
  for (; run.report() == nullptr && dripped < 6; ++dripped) {
    FarEnd& drips = run.dial_in(kLow, 1, 2);
    run.rest.clear();
    for (Duration passed; passed < seconds(4); passed = passed + milliseconds(500)) {
      run.drip(drips);
      run.pass(milliseconds(500));
    }
    EXPECT_FALSE(drips.shown_out());
    run.pass(milliseconds(300));
    EXPECT_TRUE(drips.shown_out());
  }
  EXPECT_EQ(dripped, 3);
  run.expect_nearly_dead(kLow);
  EXPECT_FALSE(run.low->shown_out());
}

// A stopped link is one to avoid soon, and broken when it was in the past.
TEST(LinkProgress, AStoppedLinkIsOneToAvoidBeforeItIsBroken) {
  Lines run;
  run.pass(seconds(3));
  const Instant began = run.me.now;
  while (run.report() == nullptr) run.pass(kStep, {run.low});
  EXPECT_TRUE(run.report()->avoid);
  EXPECT_EQ(run.report()->other, kLow);
  EXPECT_LE(run.me.now - began, milliseconds(3000));
  while (run.report()->avoid) run.pass(kStep, {run.low});
  EXPECT_GE(run.me.now - began, PeerOptions{}.link_timeout);
}

TEST(LinkProgress, ASlowLineIsNotNearlyDead) {
  Lines run;
  run.launch(wire::Collective::kAllReduce);
  run.pass(seconds(3));
  wire::Ready ready = *run.low->last<wire::Ready>();
  ready.have.resize(2000);
  std::vector<std::byte> frame;
  wire::encode(ready, Term{1}, frame);
  for (std::size_t at = 0; at + 80 < frame.size(); at += 80) {  // 800 B/s for 20 s, in the middle of one frame
    run.low->say_bytes(std::span(frame).subspan(at, 80));
    run.pass(kStep, {run.low});
  }
  EXPECT_FALSE(run.low->shown_out());
  EXPECT_EQ(run.report(), nullptr);
}

// The neighbour upstream sends long segments. The first has come in this time: 51,225 bytes a second in 320 ms.
struct SlowLine : Lines {
  explicit SlowLine(Duration first = milliseconds(320)) : Lines({kLow, kMe, kHigh}, kLength) {
    constexpr std::uint64_t kTensorElements = std::uint64_t{30} * kLength / sizeof(float);
    launch(wire::Collective::kAllReduce, 7, kTensorElements, kTensorElements);
    pass(seconds(2));
    begin();
    pass(first, {low}, first);
    bring(kLength + wire::kTrailerBytes);
    begin();
    bring(1);
    pass_beat();
  }
  void begin() {
    low->say(
        wire::Message(wire::Segment{key(), AttemptId{1}, wire::Phase::kReduceScatter, SegmentIndex{next++}, kLength}));
    me.run();
    left.assign(kLength, std::byte{});
    left.resize(kLength + wire::kTrailerBytes);
    wire::encode(wire::Trailer{lockstep::checksum(std::vector<std::byte>(kLength)), false},
                 std::span(left).last<wire::kTrailerBytes>());
  }
  void bring(std::size_t bytes) {
    low->say_bytes(std::span(left).first(bytes));
    left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(bytes));
    me.run();
  }
  // Milliseconds until the link is reported as one to avoid; -1: it is not in five seconds.
  std::int64_t milliseconds_at(std::size_t bytes_a_second) {
    for (std::int64_t passed = 0; passed < 5000; passed += 100) {
      if (report() != nullptr) return passed;
      bring(bytes_a_second / 10);
      pass(milliseconds(100), {low}, milliseconds(10));
    }
    return -1;
  }

  static constexpr std::uint32_t kLength = 16'384;
  std::uint32_t next = 20;  // of the chunk that begins upstream
  std::vector<std::byte> left;
};

TEST(LinkProgress, LessThanAFiftiethOfTheBestRateInFourHeartbeatsIsALinkToAvoid) {
  SlowLine slow;
  EXPECT_EQ(slow.milliseconds_at(1010), 2000);
  ASSERT_NE(slow.report(), nullptr);
  EXPECT_TRUE(slow.report()->avoid);
  EXPECT_EQ(slow.report()->other, kLow);
  EXPECT_EQ(slow.report()->text.find("slow: "), 0U) << slow.report()->text;
  SlowLine not_slow;
  EXPECT_EQ(not_slow.milliseconds_at(1030), -1);
  EXPECT_FALSE(not_slow.low->shown_out());
}

// A rate is known from a twenty-fifth of a heartbeat on.
TEST(LinkProgress, ALineIsNotSlowBesideARateOfLessThanTwentyMilliseconds) {
  SlowLine known(milliseconds(20));
  EXPECT_EQ(known.milliseconds_at(1010), 2000);
  SlowLine unknown(milliseconds(20) - nanoseconds(1));
  EXPECT_EQ(unknown.milliseconds_at(1010), -1);
}

TEST(LinkProgress, ALineIsSlowIfItIsInTheMiddleOfSegmentsForHalfOfTheTime) {
  for (const Duration busy : {milliseconds(250) - kTick, milliseconds(250)}) {
    Lines run;
    run.launch(wire::Collective::kAllReduce);
    run.pass(seconds(2));
    // A segment of a round that this peer has not called; the header comes so long before the payload.
    const auto bring = [&](std::uint32_t length, Duration time) {
      FarEnd whole({}, {});
      whole.say_segment({Peer3::key(8), AttemptId{1}, wire::Phase::kReduceScatter, SegmentIndex{0}, length}, {}, 0);
      const std::size_t payload = length + wire::kTrailerBytes;
      run.low->say_bytes(whole.said().first(whole.said().size() - payload));
      run.me.run();
      run.pass(time, {run.low}, kTick);
      run.low->say_bytes(whole.said().last(payload));
      run.me.run();
    };
    run.pass_beat();
    bring(1024, milliseconds(20));  // 52,000 bytes a second
    for (int beats = 0; beats < 4; ++beats) {
      run.pass_beat();
      EXPECT_EQ(run.report(), nullptr);
      bring(64, busy);  // 320 bytes a second
    }
    run.pass_beat();
    EXPECT_EQ(run.report() != nullptr, busy == milliseconds(250));
    EXPECT_FALSE(run.low->shown_out());
  }
}

// A ring of four without links for direct calls, in which the peer dials the member across as well, for peer commits.
struct Across : Lines {
  Across() : Lines({kLow, kMe, kHigh, kAcross}, 1024, false) {
    while (far == nullptr) far = open_next();
  }
  FarEnd* open_next() { return Lines::open_next(kAcross); }
  void launch_direct() {
    me.launch(direct_all_reduce(), 12);
    me.run();
  }

  static constexpr PeerId kAcross{11, 11};
  FarEnd* far = nullptr;
};

// A link that has worked counts as one to avoid after two heartbeats without a stream, and another one after six. Eight
// round trips are added.
TEST(LinkProgress, ALinkWithoutAStreamIsOneToAvoidAfterTwoHeartbeatsOrSix) {
  for (const Neighbour& neighbour : kNeighbours) {
    Lines worked;
    worked.launch(wire::Collective::kAllReduce);
    worked.pass(seconds(2));
    FarEnd* const end = worked.*neighbour.end;
    end->hang_up();
    worked.me.run();
    EXPECT_EQ(worked.milliseconds_until_reported(true, {end}), 1000 + kEightRoundTrips);
    EXPECT_EQ(worked.report()->other, neighbour.id);
  }

  Across fresh;
  fresh.launch_direct();
  EXPECT_EQ(fresh.milliseconds_until_reported(true), 3000 + kEightRoundTrips);
  EXPECT_EQ(fresh.report()->other, Across::kAcross);
}

TEST(LinkProgress, DialsThatDripDoNotPutOffTheReportOfALinkWithoutAStream) {
  Across run;
  run.launch_direct();
  const Instant began = run.me.now;
  Instant opened = began;
  while ((run.report() == nullptr || !run.report()->avoid) && run.me.now - began < seconds(10)) {
    run.pass(kStep);
    if (FarEnd* const next = run.open_next()) {
      run.far = next;
      opened = run.me.now;
    }
    if (run.me.now - opened == milliseconds(800)) run.far->say_bytes(std::vector<std::byte>(1));  // of a preamble
  }
  const std::size_t broken =
      run.coordinator->count_if<wire::LinkBroken>([](const wire::LinkBroken& said) { return !said.avoid; });
  EXPECT_GE(broken, 2U);
  ASSERT_NE(run.report(), nullptr);
  EXPECT_TRUE(run.report()->avoid);
  EXPECT_EQ(run.report()->other, Across::kAcross);
  EXPECT_LE(run.me.now - began, milliseconds(4000));
}

// The member across does not welcome a stream for peer commits while it does not want such a link, but it would go
// direct. Its welcome may be on its way, too, and segments behind it.
TEST(LinkProgress, ADirectCallGreetsAgainOnAStreamThatWasDialledForAnotherUse) {
  Across run;
  ASSERT_NE(run.far->last<wire::Link>(), nullptr);
  EXPECT_EQ(run.far->last<wire::Link>()->use, wire::LinkUse::kRing);
  run.pass(milliseconds(500));
  run.launch_direct();
  EXPECT_FALSE(run.far->shown_out());
  EXPECT_EQ(run.far->count<wire::Link>(), 2U);
  EXPECT_EQ(run.far->last<wire::Link>()->use, wire::LinkUse::kDirect);
  run.far->greet();
  run.far->say(wire::LinkWelcome{});
  run.me.run();
  EXPECT_NE(run.far->last<wire::Ready>(), nullptr);
  EXPECT_EQ(run.open_next(), nullptr);
}

// The other side lets a link go that it has no use for, although it is up. Segments on their way would be lost.
TEST(LinkProgress, ADirectCallSaysItsUseOfALinkThatIsUp) {
  Across run;
  run.far->greet();
  run.far->say(wire::LinkWelcome{});
  run.me.run();
  ASSERT_EQ(run.far->count<wire::Link>(), 1U);
  run.launch_direct();
  EXPECT_EQ(run.far->count<wire::Link>(), 2U);
  EXPECT_EQ(run.far->last<wire::Link>()->use, wire::LinkUse::kDirect);
}

// So this peer goes direct once the other side has said so, whichever of them has dialled their link.
TEST(LinkProgress, AMemberThatSaysADirectUseOfALinkThatIsUpIsHeard) {
  constexpr PeerId kLower{2, 2};
  constexpr PeerId kAcross{11, 11};
  constexpr PeerId kLast{12, 12};
  for (const PeerId caller : {kLower, kAcross}) {
    Lines run({kLow, kMe, kHigh, kLower, kAcross, kLast}, 1024, false);
    run.me.send(caller, Tag{1}, 100);
    run.me.run();
    FarEnd* end = nullptr;
    if (caller == kAcross) {
      run.pass(milliseconds(20));
      end = run.open_next(caller);
      ASSERT_NE(end, nullptr);
      end->greet();
      end->say(wire::LinkWelcome{});
    } else {
      end = &run.me.streams.accept(address_of(2));
      end->greet();
      end->say(wire::Link{caller, kMe, {}, 1, kKey, wire::LinkUse::kTransfer});
    }
    run.me.run();
    run.pass(milliseconds(20));
    ASSERT_EQ(run.dial_to(kLast), nullptr);
    end->say(wire::Link{caller, kMe, {}, 1, kKey, wire::LinkUse::kDirect});
    run.me.run();
    EXPECT_NE(run.dial_to(kLast), nullptr) << caller.low;
    EXPECT_FALSE(end->shown_out());
  }
}

// The other side of that: a member dials this peer, and changes the use of the link before or after the welcome.
class GreetedAgain : public ::testing::Test {
 protected:
  static constexpr PeerId kCaller{2, 2};
  static constexpr PeerId kOther{10, 10};
  static constexpr wire::Link kFirst{kCaller, kMe, {}, 2, kKey, wire::LinkUse::kRing};
  GreetedAgain() {
    caller.greet();
    say(kFirst);
  }
  void say(const wire::Link& link) {
    caller.say(link);
    run.me.run();
  }

  Lines run{{kCaller, kLow, kMe, kHigh, kOther}, 1024, false};
  FarEnd& caller = run.me.streams.accept(address_of(2));
};

TEST_F(GreetedAgain, TheNewUseIsTakenOnTheSameStream) {
  EXPECT_EQ(caller.last<wire::LinkWelcome>(), nullptr);
  wire::Link again = kFirst;
  again.use = wire::LinkUse::kTransfer;
  again.stripes = 4;  // rule 60
  say(again);
  EXPECT_NE(caller.last<wire::LinkWelcome>(), nullptr);
  say(kFirst);
  EXPECT_EQ(caller.count<wire::LinkWelcome>(), 1U);
  EXPECT_FALSE(caller.shown_out());
}

TEST_F(GreetedAgain, TheWelcomeIsFollowedByAnotherUseOfThisSide) {
  ASSERT_EQ(caller.last<wire::Link>(), nullptr);
  run.me.launch(direct_all_reduce(), 12);
  run.me.run();
  ASSERT_NE(caller.last<wire::LinkWelcome>(), nullptr);
  ASSERT_NE(caller.last<wire::Link>(), nullptr);
  EXPECT_EQ(caller.last<wire::Link>()->from, kMe);
  EXPECT_EQ(caller.last<wire::Link>()->to, kCaller);
  EXPECT_EQ(caller.last<wire::Link>()->use, wire::LinkUse::kDirect);
}

TEST_F(GreetedAgain, NothingElseMayChange) {
  const std::array<wire::Link, 4> wrong = {{{kLow, kMe, {}, 2, kKey, wire::LinkUse::kTransfer},
                                            {kCaller, kHigh, {}, 2, kKey, wire::LinkUse::kTransfer},
                                            {kCaller, kMe, StripeIndex{1}, 2, kKey, wire::LinkUse::kTransfer},
                                            {kCaller, kMe, {}, 2, LinkKey{1, 2}, wire::LinkUse::kTransfer}}};
  for (const wire::Link& link : wrong) {
    FarEnd& other = run.me.streams.accept(address_of(2));
    other.greet();
    other.say(kFirst);
    run.me.run();
    ASSERT_FALSE(other.shown_out());
    other.say(link);
    run.me.run();
    EXPECT_TRUE(other.shown_out()) << &link - wrong.data();
  }
}

// Streams that nobody welcomed were dialled ever more slowly.
TEST(LinkProgress, ADirectCallDoesNotWaitForTheNextDialOfALinkThatWasDialledForAnotherUse) {
  Across run;
  for (int dials = 0; dials < 8; ++dials) {
    FarEnd* next = nullptr;
    for (run.far->hang_up(); next == nullptr; next = run.open_next()) run.pass(kStep);
    run.far = next;
  }
  run.far->hang_up();
  run.me.run();
  ASSERT_EQ(run.open_next(), nullptr);
  run.launch_direct();
  FarEnd* const next = run.open_next();
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->last<wire::Link>()->use, wire::LinkUse::kDirect);
}

// A member that has installed the next cohort may call before this peer installs it.
TEST(LinkProgress, ADirectCallerIsWelcomeOnceItsCohortIsProposed) {
  constexpr PeerId kNext{2, 2};
  constexpr PeerId kNew{3, 3};
  Lines run({kLow, kMe, kHigh, kNext});
  run.me.admit();
  run.me.run();
  const wire::Propose proposal = run.proposal(view_of(2, 2, {kLow, kMe, kHigh, kNext, kNew}));
  run.propose(proposal);
  FarEnd& caller = run.me.streams.accept(address_of(3));
  caller.greet();
  caller.say(wire::Link{kNew, kMe, {}, 1, kKey, wire::LinkUse::kDirect});
  run.me.run();
  EXPECT_NE(caller.last<wire::LinkWelcome>(), nullptr);
  run.coordinator->say(wire::Install{proposal.number});
  run.pass(seconds(1));
  EXPECT_NE(caller.last<wire::LinkWelcome>(), nullptr);
  EXPECT_FALSE(caller.shown_out());
}

TEST(LinkProgress, ADrippingCoordinatorEndsTheRunOfThisPeer) {
  Lines run;
  run.pass(seconds(2));
  const Instant began = run.me.now;
  while (!run.me.run_over && run.me.now - began < seconds(10)) {
    run.drip(*run.coordinator);
    run.pass(milliseconds(900), {run.coordinator});
  }
  ASSERT_TRUE(run.me.run_over);
  EXPECT_EQ(run.me.run_over->status, Status::kNotConnected);
  EXPECT_NE(run.me.run_over->text.find("nearly dead"), std::string::npos) << run.me.run_over->text;
  EXPECT_LE(run.me.now - began, milliseconds(1800));
}

// The peer stands still for so short a time that its timer does not tell, and reads a part of a heartbeat first.
TEST(LinkProgress, APeerThatStoodStillReadsOnBeforeItGivesAStreamUp) {
  std::vector<std::byte> beat;
  wire::encode(wire::Heartbeat{}, Term{1}, beat);
  for (FarEnd* Peer3::*const whose : {&Peer3::coordinator, &Peer3::low}) {
    for (int phase = 0; phase < 500; phase += 100) {
      for (int quiet = 200; quiet <= 500; quiet += 100) {
        for (int still = 500; still <= 900; still += 50) {
          Lines run;
          run.launch(wire::Collective::kAllReduce);
          FarEnd* const end = run.*whose;
          run.pass(seconds(2) + milliseconds(phase));
          run.pass(milliseconds(quiet), {end});
          for (FarEnd* other : {run.low, run.high, run.coordinator}) {
            other->say_bytes(other == end ? std::span(beat).first(15) : std::span(beat));
          }
          run.me.now = run.me.now + milliseconds(still);
          run.me.run();
          run.me.pass({});
          ASSERT_FALSE(run.me.run_over) << run.me.run_over->text;
          ASSERT_FALSE(end->shown_out()) << phase << " " << quiet << " " << still;
          end->say_bytes(std::span(beat).subspan(15));
          run.me.run();
          run.pass(seconds(1));
          ASSERT_FALSE(run.me.run_over) << run.me.run_over->text;
          ASSERT_FALSE(end->shown_out());
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::peer
