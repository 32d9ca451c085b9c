// Peer commit (rule 14): in a small group, members send Done to each other. A member that has Done of all members
// commits without the coordinator.
#include <gtest/gtest.h>

#include "core/wire/limits.h"
#include "tests/core/peer/small.h"

namespace lockstep::peer {
namespace {

// A round of three; the test plays `low` and `high`. Rank 0 has the result once the partial sum of `low` has arrived.
struct Direct : Small {
  Direct() : Small(kOwner) {}

  CallId ready(std::uint64_t tag = 7) {
    const CallId id = call(tag);
    offered(tag);
    return id;
  }
  wire::Done done(std::uint64_t tag = 7) {
    const auto* mine = coordinator->last<wire::Done>();
    return {key(tag), Generation{1}, arguments(), mine == nullptr ? 0 : mine->hash};
  }
  void say(FarEnd* who, const wire::Done& what) {
    who->say(what);
    me.run();
  }
  void both_are_done(std::uint64_t tag = 7) {
    for (FarEnd* end : {low, high}) say(end, done(tag));
  }
  void commit(const wire::Done& what) {
    coordinator->say(wire::Commit{what.key, what.attempt, what.hash, false, {}});
    me.run();
  }
  [[nodiscard]] std::vector<wire::OpenRound> open_as_said() {
    propose(proposal(me.views.back()));
    return coordinator->last<wire::Flush>()->open;
  }
};

TEST(PeerCommit, ADonePeerSendsDoneToAllMembers) {
  Direct d;
  d.ready();
  const auto* said = d.coordinator->last<wire::Done>();
  ASSERT_NE(said, nullptr);
  for (FarEnd* end : {d.low, d.high}) {
    ASSERT_NE(end->last<wire::Done>(), nullptr);
    EXPECT_EQ(end->last<wire::Done>()->key, said->key);
    EXPECT_EQ(end->last<wire::Done>()->hash, said->hash);
  }
}

TEST(PeerCommit, CommitsAfterDoneOfAllMembers) {
  Direct d;
  const CallId id = d.ready();
  d.say(d.low, d.done());
  EXPECT_EQ(d.me.outcome(id), nullptr) << "high may not be done";
  d.say(d.high, d.done());
  ASSERT_NE(d.me.outcome(id), nullptr);
  EXPECT_EQ(d.me.outcome(id)->status, Status::kOk);
  EXPECT_EQ(d.me.outcome(id)->hash, d.done().hash);
  EXPECT_EQ(d.me.outcome(id)->world, 3U);
}

TEST(PeerCommit, AcceptsDoneOfOthersFirst) {
  Direct first;
  first.ready();
  const std::uint64_t hash = first.done().hash;
  Direct d;
  const CallId id = d.call();
  for (FarEnd* end : {d.low, d.high}) {
    wire::Done done = d.done();
    done.hash = hash;
    d.say(end, done);
  }
  EXPECT_EQ(d.me.outcome(id), nullptr) << "this peer is not done";
  d.offered();
  ASSERT_NE(d.me.outcome(id), nullptr);
  EXPECT_EQ(d.me.outcome(id)->status, Status::kOk);
}

TEST(PeerCommit, TheCoordinatorsCommitAlsoCommits) {
  Direct d;
  const CallId id = d.ready();
  d.say(d.low, d.done());
  d.commit(d.done());
  ASSERT_NE(d.me.outcome(id), nullptr);
  EXPECT_EQ(d.me.outcome(id)->status, Status::kOk);
  d.say(d.high, d.done());  // after the commit
  d.expect_alive();
}

TEST(PeerCommit, TheCoordinatorJudgesDifferentResults) {
  Direct d;
  const CallId id = d.ready();
  wire::Done other = d.done();
  ++other.hash;
  d.say(d.low, other);
  d.say(d.high, d.done());
  EXPECT_EQ(d.me.outcome(id), nullptr);
  EXPECT_EQ(d.coordinator->last<wire::StopRound>(), nullptr);
}

TEST(PeerCommit, DifferentArgumentsStopTheRound) {
  Direct d;
  d.ready();
  wire::Done other = d.done();
  other.what.minimum_world = 2;
  d.say(d.low, other);
  ASSERT_NE(d.coordinator->last<wire::StopRound>(), nullptr);
  EXPECT_EQ(d.coordinator->last<wire::StopRound>()->status, Status::kMismatch);
  EXPECT_TRUE(d.coordinator->last<wire::StopRound>()->done);
}

TEST(PeerCommit, AReportedRoundStaysOpenUntilTheCoordinatorConfirms) {
  Direct d;
  d.ready();
  d.both_are_done();
  const auto open = d.open_as_said();
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open.front().key, Small::key());
  EXPECT_TRUE(open.front().done);
  EXPECT_EQ(open.front().hash, d.done().hash);
  EXPECT_EQ(d.me.footprint().remembered, 1U);
  d.commit(d.done());
  EXPECT_TRUE(d.open_as_said().empty());
  EXPECT_EQ(d.me.footprint().remembered, 0U);
  EXPECT_FALSE(d.me.run_over);
}

TEST(PeerCommit, ALossCommitsReportedRounds) {
  Direct d;
  d.ready();
  d.both_are_done();
  wire::Propose loss = d.loss_of(kHigh);
  loss.verdicts.push_back({Small::key(), Generation{1}, Status::kOk, d.done().hash, {}});
  d.install(loss);
  EXPECT_FALSE(d.me.run_over);
  EXPECT_TRUE(d.open_as_said().empty());
}

TEST(PeerCommit, AReportedOutcomeIsFinal) {
  for (const bool stopped : {true, false}) {
    Direct d;
    d.ready();
    d.both_are_done();
    if (stopped) {
      d.stopped({7});
    } else {
      wire::Done other = d.done();
      ++other.hash;
      d.commit(other);
    }
    ASSERT_TRUE(d.me.run_over);
    EXPECT_EQ(d.me.run_over->status, Status::kProtocolError);
  }
}

// A member that lies can make the coordinator think that the arguments of this newcomer differ (rule 56).
TEST(PeerCommit, ADoneNewcomerThatIsTakenOutDoesNotKnowTheOutcome) {
  for (const bool is_done : {true, false}) {
    Direct d;
    const CallId id = is_done ? d.ready() : d.call();
    d.coordinator->say(wire::Evicted{Status::kMismatch, "arguments differ", Small::key()});
    d.me.run();
    ASSERT_NE(d.me.outcome(id), nullptr);
    EXPECT_EQ(d.me.outcome(id)->status, is_done ? Status::kOutcomeUnknown : Status::kMismatch);
  }
}

// Rule 5: the peer has answered a proposal that touches the round.
TEST(PeerCommit, AFrozenRoundWaitsForItsVerdict) {
  Direct d;
  const CallId id = d.ready();
  wire::Propose loss = d.loss_of(kHigh);
  d.propose(loss);
  d.both_are_done();
  EXPECT_EQ(d.me.outcome(id), nullptr);
  const auto open = d.coordinator->last<wire::Flush>()->open;
  ASSERT_EQ(open.size(), 1U);
  EXPECT_TRUE(open.front().done);
}

// Rule 7: until the view is installed, another proposal could still commit the round.
TEST(PeerCommit, AnAbortIsReportedWhenItsViewIsInstalled) {
  for (const Status status : {Status::kAborted, Status::kPeerLost, Status::kTimedOut}) {
    Peer3 run;
    const CallId id = run.launch(wire::Collective::kAllReduce);
    wire::Propose end = run.proposal(run.me.views.back());
    end.verdicts.push_back({Peer3::key(), Generation{1}, status, 0, {}});
    run.propose(end);
    EXPECT_EQ(run.me.outcome(id), nullptr);
    run.coordinator->say(wire::Install{end.number});
    run.me.run();
    ASSERT_NE(run.me.outcome(id), nullptr);
    EXPECT_EQ(run.me.outcome(id)->status, status);
  }
}

TEST(PeerCommit, WaitsIfTheCoordinatorIsFarBehind) {
  Direct d;
  CallId last;
  for (std::uint64_t tag = 0; tag <= kMaxReported; ++tag) {
    last = d.ready(tag);
    d.both_are_done(tag);
    EXPECT_EQ(d.me.outcome(last) != nullptr, tag < kMaxReported) << tag;
  }
  EXPECT_EQ(d.open_as_said().size(), kMaxReported + 1U);
  wire::Done done = d.done(kMaxReported);
  d.commit(done);
  ASSERT_NE(d.me.outcome(last), nullptr);
  EXPECT_EQ(d.me.outcome(last)->status, Status::kOk);
}

TEST(PeerCommit, RoundsWithoutAProofWaitForTheCoordinator) {
  Direct d;
  const CallId id = d.launch(wire::Collective::kBarrier);
  ASSERT_NE(d.coordinator->last<wire::Done>(), nullptr);
  EXPECT_EQ(d.low->last<wire::Done>(), nullptr);
  for (FarEnd* end : {d.low, d.high}) d.say(end, *d.coordinator->last<wire::Done>());
  EXPECT_EQ(d.me.outcome(id), nullptr);
}

// A near coordinator probably runs on the same cores: one message reports many small rounds.
struct NearDirect : Small {
  NearDirect() : Small(kOwner, kFarCoordinator - nanoseconds(1)) {}
  void is_done(std::uint64_t tag = 7) {
    call(tag);
    offered(tag);
  }
};

TEST(PeerCommit, ReportsToANearCoordinatorAreDelayed) {
  NearDirect d;
  d.is_done(7);
  d.is_done(8);
  EXPECT_EQ(d.low->count<wire::Done>(), 2U);
  EXPECT_EQ(d.high->count<wire::Done>(), 2U);
  EXPECT_EQ(d.coordinator->last<wire::Done>(), nullptr);
  d.me.pass(d.me.deadline() - d.me.now);
  d.me.run();
  EXPECT_EQ(d.coordinator->count<wire::Done>(), 2U);
}

TEST(PeerCommit, ReportsToANearCoordinatorAreDelayedByTwoMilliseconds) {
  NearDirect d;
  const auto pass = [&](Duration time) {
    d.me.pass(time);
    d.me.run();
  };
  d.is_done(7);
  pass(milliseconds(1));
  d.is_done(8);
  pass(milliseconds(1) - nanoseconds(1));
  EXPECT_EQ(d.coordinator->last<wire::Done>(), nullptr);
  pass(nanoseconds(1));
  EXPECT_EQ(d.coordinator->count<wire::Done>(), 2U) << "the second report waits no longer than the first";
}

TEST(PeerCommit, TheNextMessageToTheCoordinatorCarriesTheReports) {
  NearDirect d;
  d.is_done(7);
  d.launch(wire::Collective::kBarrier, 8);
  EXPECT_EQ(d.coordinator->count<wire::Done>(), 2U);
  EXPECT_EQ(d.coordinator->last<wire::Done>()->key, d.key(8));
}

TEST(PeerCommit, ReportsOfManyRoundsAreNotDelayed) {
  NearDirect d;
  for (std::uint64_t tag = 0; tag < 60; ++tag) d.is_done(tag);
  EXPECT_GT(d.coordinator->count<wire::Done>(), 0U);
}

TEST(PeerCommit, ReportsAreNotDelayedIfAMemberIsUnreachable) {
  NearDirect d;
  d.call();
  d.high_hangs_up();
  d.offered();
  EXPECT_EQ(d.low->count<wire::Done>(), 1U);
  EXPECT_EQ(d.coordinator->count<wire::Done>(), 1U);
}

// A ring of `size` members: this peer, high, others, low.
std::vector<PeerId> ring_of(std::size_t size) {
  std::vector<PeerId> ring = kOwner;
  for (std::uint64_t n = 0; ring.size() < size; ++n) ring.insert(ring.begin() + 2, PeerId{20 + n, 20 + n});
  return ring;
}

TEST(PeerCommit, MembersOfLargeCohortsSendNoDoneToEachOther) {
  constexpr Duration kNear = kFarCoordinator - nanoseconds(1);
  const struct {
    std::size_t size = 0;
    Duration round_trip;
    bool meshed = false;
    bool sends = false;
  } cases[] = {
      {kMaxPeerCommit, kNear, true, true},      {kMaxPeerCommit, kFar, false, true},
      {kMaxPeerCommit + 1, kNear, true, false}, {kMaxPeerCommit + 1, kFar, false, false},
      {kMaxPeerCommit + 1, kFar, true, true},   {kMaxMeshed, kFar, true, true},
      {kMaxMeshed + 1, kFar, true, false},
  };
  for (const auto& [size, round_trip, meshed, sends] : cases) {
    SCOPED_TRACE(testing::Message() << size << " members, " << (round_trip == kFar ? "far" : "near")
                                    << (meshed ? "" : ", not meshed"));
    Small d(ring_of(size), round_trip, meshed);
    d.call();
    d.offered();
    EXPECT_EQ(d.low->last<wire::Done>() != nullptr, sends);
    if (!sends) {
      EXPECT_NE(d.coordinator->last<wire::Done>(), nullptr);
    }
  }
}

// The Done of the last of 64 members commits the round.
TEST(PeerCommit, AMeshedGroupOf64CommitsAfterDoneOfAllMembers) {
  const std::vector<PeerId> ring = ring_of(kMaxMeshed);
  Small d(ring);
  const CallId id = d.call();
  d.offered();
  const auto* mine = d.coordinator->last<wire::Done>();
  ASSERT_NE(mine, nullptr);
  const wire::Done done = *mine;
  const auto says = [&](FarEnd& end) {
    end.say(done);
    d.me.run();
  };
  says(*d.low);
  says(*d.high);
  for (std::size_t rank = 2; rank + 1 < ring.size(); ++rank) {
    ASSERT_EQ(d.me.outcome(id), nullptr) << rank;
    says(*d.welcome(ring[rank]));
  }
  ASSERT_NE(d.me.outcome(id), nullptr);
  EXPECT_EQ(d.me.outcome(id)->status, Status::kOk);
  EXPECT_EQ(d.me.outcome(id)->world, kMaxMeshed);
}

// A member that has the Done of all ends its round, and lets the links of a leaver go. The leaver may still wait for
// the Done of another member.
TEST(PeerCommit, ADoneLeaverDoesNotReportMembersThatLetItsLinksGo) {
  for (const bool is_done : {true, false}) {
    Direct d;
    const CallId id = d.call();
    if (is_done) d.offered();
    EXPECT_EQ(d.coordinator->last<wire::Done>() != nullptr, is_done);
    d.me.leave();
    d.me.run();
    wire::Propose cut = d.proposal(view_of(2, 1, {kHigh, kLow}));
    cut.left = {kMe};
    cut.kept = {d.key()};
    d.install(cut);
    if (is_done) d.say(d.low, d.done());
    d.low->hang_up();
    d.high->hang_up();
    for (int beats = 0; beats < 10; ++beats) {
      d.coordinator->say(wire::Heartbeat{});
      d.me.run();
      d.me.pass(milliseconds(500));
    }
    d.me.run();
    EXPECT_EQ(d.me.outcome(id), nullptr);
    EXPECT_EQ(d.coordinator->last<wire::LinkBroken>() != nullptr, !is_done);
    if (!is_done) continue;
    d.commit(d.done());
    ASSERT_NE(d.me.outcome(id), nullptr);
    EXPECT_EQ(d.me.outcome(id)->status, Status::kOk);
  }
}

}  // namespace
}  // namespace lockstep::peer
