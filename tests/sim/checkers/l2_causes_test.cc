#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "sim/checkers/l2_causes.h"
#include "tests/sim/checkers/calls.h"

namespace lockstep::sim {
namespace {

// Three processes on hosts 1 to 3, h1 to h3, in one cohort; and what checkers are told of them. A beat takes 100 ms.
class L2Causes : public testing::Test {
 protected:
  static constexpr std::uint32_t kCoordinator = 0;

  L2Causes() : causes_(plan(), now_) {
    coordinator::CoordinatorOptions options;
    options.heartbeat = kBeat;
    options.silence = kBeat * 6;
    options.link_patience = kBeat * 20;
    options.gang_leave = kBeat * 20;
    causes_.coordinator(options);
    wire::View view;
    view.number = ViewNumber{1};
    view.cohort = CohortId{1};
    for (const PeerId id : {kA, kB, kC}) {
      const std::uint32_t process = start(id, ++hosts_);
      EXPECT_EQ(process, hosts_);
      view.members.push_back({.id = id, .group = GroupId{0}, .gang = {}, .address = {}, .name = {}});
    }
    view_ = std::make_shared<const wire::View>(view);
    for (std::uint32_t process = 1; process <= 3; ++process) causes_.installed(process, view_);
  }

  static Plan plan() {
    Plan plan;
    plan.heartbeat = kBeat;
    plan.founders = 3;
    return plan;
  }
  std::uint32_t start(PeerId id, std::uint32_t host) {
    peer::PeerOptions options;
    options.id = id;
    options.name = "h" + std::to_string(host) + (processes_ >= 3 ? "." + std::to_string(processes_) : "");
    options.link_heartbeat = kBeat;
    options.link_silence = kBeat * 8;
    options.link_timeout = kBeat * 16;
    options.dial_timeout = kBeat * 10;
    options.abort_grace = kBeat * 20;
    causes_.born(++processes_, options, host);
    return processes_;
  }
  void pass(std::int64_t beats) { now_ = now_ + kBeat * beats; }
  Complaint coordinator_loses(PeerId peer, const std::string& why, Status status = Status::kEvicted) {
    const auto process = causes_.excuses().process_of(peer);
    trace::Event event{.kind = trace::Kind::kPeerLost, .view = {}, .peer = peer, .round = {}, .text = {}};
    event.status = status;
    event.text = causes_.excuses().life(*process).name + ": " + why;
    return causes_.noted(kCoordinator, event);
  }
  Complaint reports(std::uint32_t process, PeerId other) {
    return causes_.noted(
        process, {.kind = trace::Kind::kLinkReported, .view = {}, .peer = other, .round = {}, .text = "no stream"});
  }
  Call call(Status status, const std::string& text, PeerId by = kA) {
    Call call = ended_call(by, aborted(status));
    call.process = *causes_.excuses().process_of(by);
    call.outcome->text = text;
    call.view = view_;
    call.made = now_;
    return call;
  }
  Complaint ends(const Call& call, bool leaving = false) {
    return causes_.aborted(
        call, view_.get(), [&](PeerId peer, const RoundKey&) { return others_[peer]; }, leaving);
  }
  void stalls(std::uint32_t host, std::int64_t beats) {
    const Entry stall{.fault = Fault::kStall, .a = host};
    causes_.began(stall);
    pass(beats);
    causes_.ended(stall);
  }

  static constexpr Duration kBeat = milliseconds(100);
  static constexpr auto kSilent = "silent for 600 ms";
  Instant now_;
  Causes causes_;
  std::uint32_t hosts_ = 0;
  std::uint32_t processes_ = 0;
  std::shared_ptr<const wire::View> view_;
  std::map<PeerId, const Call*> others_;
};

// ---- who is taken out of the run ----

TEST_F(L2Causes, AHealthyPeerThatIsSilentFails) {
  stalls(2, 6);
  EXPECT_TRUE(coordinator_loses(kA, kSilent)) << "it was another that stood still";
  EXPECT_FALSE(coordinator_loses(kB, kSilent));
}

TEST_F(L2Causes, AProcessThatWokeUpIsHealthyAgain) {
  stalls(1, 6);
  pass(7);
  EXPECT_TRUE(coordinator_loses(kA, kSilent));
}

TEST_F(L2Causes, APauseThatIsShorterThanTheSilenceThatEvictsIsNoExcuse) {
  stalls(1, 3);
  EXPECT_TRUE(coordinator_loses(kA, kSilent));
}

TEST_F(L2Causes, TheCoordinatorsOwnPauseIsNoExcuse) {
  stalls(0, 8);
  EXPECT_TRUE(coordinator_loses(kA, kSilent));
}

TEST_F(L2Causes, ACutToTheCoordinatorIsAnExcuseWhileItLastsAndForTheTwoOnly) {
  const Entry cut{.fault = Fault::kCut, .a = 1, .b = 0};
  causes_.began(cut);
  pass(6);
  EXPECT_FALSE(coordinator_loses(kA, kSilent));
  EXPECT_TRUE(coordinator_loses(kB, kSilent));
  causes_.ended(cut);
  pass(8);
  EXPECT_TRUE(coordinator_loses(kA, kSilent));
}

TEST_F(L2Causes, ADeadProcessIsSilentAndItsSuccessorIsAnotherPeer) {
  causes_.died(1);
  EXPECT_FALSE(coordinator_loses(kA, "its stream to the coordinator ended (reset)", Status::kPeerLost));
  pass(6);
  EXPECT_FALSE(coordinator_loses(kA, kSilent));
  constexpr PeerId kNext{0xd, 4};
  const std::uint32_t next = start(kNext, 1);
  causes_.installed(next, view_);
  EXPECT_TRUE(coordinator_loses(kNext, kSilent));
  EXPECT_TRUE(coordinator_loses(kNext, "its stream to the coordinator ended (reset)", Status::kPeerLost));
}

TEST_F(L2Causes, AStreamThatWasResetIsAnExcuseAtOnce) {
  causes_.began({.fault = Fault::kReset, .a = 1, .b = 0});
  EXPECT_FALSE(coordinator_loses(kA, "its stream to the coordinator ended (reset)", Status::kPeerLost));
  EXPECT_TRUE(coordinator_loses(kA, kSilent)) << "which is another reason";
  pass(3);
  EXPECT_TRUE(coordinator_loses(kA, "its stream to the coordinator ended (reset)", Status::kPeerLost));
}

TEST_F(L2Causes, AnUnknownReasonIsNoCause) {
  stalls(1, 8);
  EXPECT_TRUE(coordinator_loses(kA, "it was its turn"));
  EXPECT_TRUE(coordinator_loses(kA, "done twice", Status::kProtocolError));
}

TEST_F(L2Causes, ABrokenPairCostsOneOfTheTwoAndNoThird) {
  const std::string why = " cannot reach each other, and no ring avoids that link";
  causes_.began({.fault = Fault::kCutBoth, .a = 1, .b = 2});
  pass(24);
  EXPECT_FALSE(reports(1, kB));
  EXPECT_TRUE(coordinator_loses(kC, "it and h2" + why));
  EXPECT_TRUE(coordinator_loses(kA, "it and h3" + why));
  EXPECT_FALSE(coordinator_loses(kA, "it and h2" + why));
}

TEST_F(L2Causes, AHealedLinkIsNotReportedAndCostsNoPeerItsRun) {
  EXPECT_TRUE(reports(1, kB)) << "it never was";
  const Entry cut{.fault = Fault::kCut, .a = 2, .b = 1};
  causes_.began(cut);
  pass(24);
  EXPECT_FALSE(reports(1, kB));
  causes_.ended(cut);
  pass(60);
  EXPECT_TRUE(reports(2, kA));
  EXPECT_TRUE(coordinator_loses(kC, "it and h1 cannot reach each other, and no ring avoids that link"));
}

TEST_F(L2Causes, AMemberThatTheCoordinatorDoesNotReachDialsNobodyNew) {
  EXPECT_TRUE(reports(1, kB));
  causes_.began({.fault = Fault::kCutBoth, .a = 0, .b = 2});
  EXPECT_FALSE(reports(1, kB));
  EXPECT_FALSE(reports(2, kA));
  EXPECT_TRUE(reports(1, kC));
}

// Swarm seed 1916138: the links of one host to all others were reset until none could be opened, and the other end had
// to go.
TEST_F(L2Causes, AFaultOfAllLinksOfAHostTouchesEveryNeighbour) {
  causes_.began({.fault = Fault::kReset, .a = 2, .b = 2});
  EXPECT_FALSE(reports(1, kB));
  EXPECT_FALSE(reports(2, kC));
  EXPECT_TRUE(reports(1, kC));
}

TEST_F(L2Causes, APeerLosesItsRunOnlyIfItWasLostOrCutOff) {
  const auto loses = [&](const std::string& text, Status status = Status::kNotConnected) {
    return causes_.lost(1, status, text);
  };
  const std::string silent = "the coordinator at 'c' was silent for 600 ms: rejoin as a new peer";
  EXPECT_TRUE(loses("evicted by the coordinator: silent for 600 ms", Status::kEvicted));
  EXPECT_TRUE(loses(silent));
  EXPECT_TRUE(loses("lost the coordinator at 'c' (reset): rejoin as a new peer"));
  stalls(0, 6);
  EXPECT_FALSE(loses(silent));
  pass(8);
  EXPECT_TRUE(loses(silent));
  EXPECT_TRUE(loses("the coordinator is mad", Status::kProtocolError));
  stalls(1, 6);
  EXPECT_FALSE(coordinator_loses(kA, kSilent));
  EXPECT_FALSE(loses("evicted by the coordinator: silent for 600 ms", Status::kEvicted));
}

// ---- breaches of the protocol ----

TEST_F(L2Causes, AHostThatFalsifiesPiecesExcusesOnlyRefusalsOfItsOwnPieces) {
  trace::Event event{.kind = trace::Kind::kProtocolError, .view = {}, .peer = kA, .round = {}, .text = {}};
  event.text = "a piece of the state whose digest is wrong";
  EXPECT_TRUE(causes_.noted(2, event));
  causes_.began({.fault = Fault::kSpoil, .a = 1});
  EXPECT_FALSE(causes_.noted(2, event));
  event.peer = kC;
  EXPECT_TRUE(causes_.noted(2, event));
  event.peer = kA;
  event.text = "a message that neighbours do not send";
  EXPECT_TRUE(causes_.noted(2, event));
  event.kind = trace::Kind::kPeerRefused;
  EXPECT_FALSE(causes_.noted(2, event));
  event.status = Status::kProtocolError;
  EXPECT_TRUE(causes_.noted(2, event));
}

// ---- calls ----

TEST_F(L2Causes, APeerThatIsLostIsTheCauseForRoundsThatHeldIt) {
  const Call during = call(Status::kPeerLost, "lost h2 during tag 5; the group has 2 members now");
  EXPECT_TRUE(ends(during));
  causes_.died(2);
  EXPECT_TRUE(ends(during)) << "nobody has noticed it yet";
  EXPECT_FALSE(coordinator_loses(kB, "its stream to the coordinator ended (reset)", Status::kPeerLost));
  EXPECT_FALSE(ends(during));
  EXPECT_TRUE(ends(call(Status::kPeerLost, "lost h3 during tag 5"))) << "which is another one";
  wire::View without = *view_;
  without.number = ViewNumber{2};
  std::erase_if(without.members, [](const wire::Member& member) { return member.id == kB; });
  Call after = call(Status::kPeerLost, "lost h2 during tag 5");
  after.view = std::make_shared<const wire::View>(without);
  EXPECT_TRUE(ends(after)) << "it was made when h2 was gone";
  others_[kC] = &during;
  EXPECT_FALSE(ends(after)) << "the round was begun before, by another";
}

TEST_F(L2Causes, ALeaverExcusesAChangedWorld) {
  const Call changed = call(Status::kWorldChanged, "h2 left before tag 5; the group has 2 members now");
  EXPECT_TRUE(ends(changed));
  Call leave = ended_call(kB, {});
  leave.kind = CallKind::kLeave;
  leave.process = 2;
  causes_.called(leave);
  EXPECT_FALSE(ends(changed));
  EXPECT_TRUE(ends(call(Status::kPeerLost, "lost h2 during tag 5")));
  EXPECT_TRUE(ends(call(Status::kWorldChanged, "h3 left before tag 5")));
  EXPECT_TRUE(ends(call(Status::kWorldChanged, "the ring was laid around a broken link during tag 5: call again")));
}

TEST_F(L2Causes, EvictedNeedsALostRun) {
  for (const Status status : {Status::kEvicted, Status::kNotConnected, Status::kOutcomeUnknown}) {
    EXPECT_TRUE(ends(call(status, "gone")));
  }
  EXPECT_FALSE(ends(call(Status::kNotConnected, "this peer is leaving: no more calls"), true));
  EXPECT_TRUE(ends(call(Status::kOutcomeUnknown, "a member was lost while this peer was leaving"), true));
  causes_.over(1);
  EXPECT_FALSE(ends(call(Status::kOutcomeUnknown, "gone")));
  EXPECT_TRUE(ends(call(Status::kOutcomeUnknown, "gone", kB)));
}

TEST_F(L2Causes, TheNamedPeerHasStoppedTheCall) {
  const Call stopped = call(Status::kAborted, "aborted by h2: enough");
  EXPECT_TRUE(ends(stopped));
  Call theirs = call(Status::kAborted, "aborted by h2: enough", kB);
  others_[kB] = &theirs;
  EXPECT_TRUE(ends(stopped));
  theirs.stopped = true;
  EXPECT_FALSE(ends(stopped));
  EXPECT_TRUE(ends(call(Status::kAborted, "aborted by h3: enough")));
}

TEST_F(L2Causes, TheNamedPeerHadATimeOut) {
  const Call timed = call(Status::kTimedOut, "h2 timed out after 100 ms in tag 5");
  EXPECT_TRUE(ends(timed));
  Call theirs = call(Status::kTimedOut, "h2 timed out after 100 ms in tag 5", kB);
  theirs.request.timeout = kBeat;
  others_[kB] = &theirs;
  EXPECT_FALSE(ends(timed));
  EXPECT_TRUE(ends(call(Status::kTimedOut, "h3 timed out after 100 ms in tag 5")));
}

TEST_F(L2Causes, AProgramThatIsOutOfStepIsAnExcuseUntilItsCohortIsOver) {
  Call closed = call(Status::kCohortClosed, "h2 did not launch tag 5 before the admission");
  EXPECT_TRUE(ends(closed));
  causes_.began({.fault = Fault::kSkip, .a = 2});
  EXPECT_FALSE(ends(closed));
  Call next = call(Status::kOk, {}, kB);
  next.launch.cohort = CohortId{1};
  next.id = CallId{7};
  causes_.launched(next, true);
  EXPECT_FALSE(ends(closed));
  EXPECT_FALSE(ends(call(Status::kMismatch, "arguments differ")));
  closed.outcome->round.cohort = CohortId{2};
  EXPECT_TRUE(ends(closed));
}

// Rule 52. h1 to h3 have taken part in a round; h4 comes later, and its program is out of step.
TEST_F(L2Causes, OneNewcomerThatDiffersEndsAloneWithAllOfItsCalls) {
  constexpr PeerId kD{0xd, 4};
  const trace::Event commit{.kind = trace::Kind::kCommitted, .view = {}, .peer = {}, .round = kRound, .text = {}};
  EXPECT_FALSE(causes_.noted(kCoordinator, commit));
  Call first = call(Status::kOk, {});
  first.outcome = committed({kA, kB, kC});
  EXPECT_FALSE(ends(first));
  wire::View next = *view_;
  next.number = ViewNumber{2};
  next.cohort = CohortId{2};
  next.members.push_back({.id = kD, .group = GroupId{0}, .gang = {}, .address = {}, .name = {}});
  view_ = std::make_shared<const wire::View>(next);
  const std::uint32_t newcomer = start(kD, 4);
  for (std::uint32_t process = 1; process <= newcomer; ++process) causes_.installed(process, view_);
  causes_.began({.fault = Fault::kMismatch, .a = 4});
  const auto mismatch = [&](PeerId by) {
    Call call = this->call(Status::kMismatch, "arguments differ", by);
    call.outcome->round.cohort = CohortId{2};
    return call;
  };
  EXPECT_FALSE(ends(mismatch(kD)));
  EXPECT_TRUE(ends(mismatch(kA)));
  EXPECT_FALSE(coordinator_loses(kD, "arguments differ", Status::kMismatch));
  Call other = mismatch(kD);
  other.outcome->round.tag = Tag{6};
  EXPECT_FALSE(ends(other)) << "every call of a newcomer that is taken out ends so";
  EXPECT_TRUE(coordinator_loses(kA, "arguments differ", Status::kMismatch)) << "it has taken part in a round";
  trace::Event later = commit;
  later.round.cohort = CohortId{2};
  EXPECT_FALSE(causes_.noted(kCoordinator, later));
  EXPECT_FALSE(ends(mismatch(kA))) << "the coordinator may know of a round of h4";
}

TEST_F(L2Causes, TooFewAreLeftOnlyWhenSomeAreGone) {
  Call few = call(Status::kBelowMinimum, "h1: the group has 2 members, the call wants at least 3");
  few.request.minimum_world = 3;
  EXPECT_TRUE(ends(few));
  causes_.died(3);
  EXPECT_FALSE(coordinator_loses(kC, "its stream to the coordinator ended (reset)", Status::kPeerLost));
  EXPECT_FALSE(ends(few));
  few.request.minimum_world = 2;
  EXPECT_TRUE(ends(few));
}

TEST_F(L2Causes, SomeOutcomesHaveNoCause) {
  causes_.died(2);
  EXPECT_FALSE(coordinator_loses(kB, "its stream to the coordinator ended (reset)", Status::kPeerLost));
  for (const Status status : {Status::kInternal, Status::kProtocolError, Status::kRefused, Status::kUnreachable,
                              Status::kTooManyInFlight, Status::kOutOfMemory, Status::kBufferTooSmall}) {
    EXPECT_TRUE(ends(call(status, "because"))) << status_name(status);
  }
}

// ---- the table ----

TEST(Excuses, FaultsThatEndBreakOrSilenceMayLoseMembers) {
  for (std::uint8_t i = 0; i < kFaultCount; ++i) {
    const auto fault = static_cast<Fault>(i);
    const ExcuseRule rule = excuse_of(fault);
    // A mute host is heard, and does not answer; one that is shut keeps its streams, and gets no new ones. Bits flip
    // between peers only, which costs streams and no member.
    const bool answers = fault != Fault::kMute && fault != Fault::kShut;
    const bool between_peers = fault == Fault::kFlip || fault == Fault::kMiscompute;
    const bool loses = !answers || rule.ends || rule.quiet || (rule.breaks && !between_peers);
    EXPECT_EQ(loses, may_lose_members(fault)) << name_of(fault);
  }
}

}  // namespace
}  // namespace lockstep::sim
