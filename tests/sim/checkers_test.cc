// Every checker is shown a history that keeps its promise and one that breaks it.
#include <array>
#include <memory>

#include <gtest/gtest.h>

#include "core/kernels/reference.h"
#include "sim/checkers/l1_l4_ends.h"
#include "sim/checkers/l2_causes.h"
#include "sim/checkers/p1_bytes.h"
#include "sim/checkers/s10_arguments.h"
#include "sim/checkers/s10_mismatch.h"
#include "sim/checkers/s11_at_rest.h"
#include "sim/checkers/s1_one_outcome.h"
#include "sim/checkers/s2_exact_fold.h"
#include "sim/checkers/s3_restored.h"
#include "sim/checkers/s4_hands_off.h"
#include "sim/checkers/s5_one_state.h"
#include "sim/checkers/s6_membership.h"
#include "sim/checkers/s8_once.h"
#include "sim/checkers/s9_bounds.h"

namespace lockstep::sim {
namespace {

constexpr PeerId kA{0xa, 1};
constexpr PeerId kB{0xb, 2};
constexpr PeerId kC{0xc, 3};
constexpr RoundKey kRound{CohortId{1}, GroupId{0}, Tag{5}, 0};

peer::Outcome committed(std::vector<PeerId> contributors) {
  peer::Outcome outcome;
  outcome.round = kRound;
  outcome.world = static_cast<std::uint32_t>(contributors.size());
  outcome.hash = 99;
  outcome.contributors = std::make_shared<const std::vector<PeerId>>(std::move(contributors));
  return outcome;
}

peer::Outcome aborted(Status status) {
  peer::Outcome outcome;
  outcome.round = kRound;
  outcome.status = status;
  outcome.text = "because";
  return outcome;
}

Call ended(PeerId peer, peer::Outcome outcome) {
  Call call;
  call.peer = peer;
  call.outcome = std::move(outcome);
  return call;
}

TEST(S1OneOutcome, AgreeingPeersPass) {
  OneOutcome checker;
  EXPECT_FALSE(checker.ended(ended(kA, committed({kA, kB}))));
  EXPECT_FALSE(checker.ended(ended(kB, committed({kA, kB}))));
  EXPECT_FALSE(checker.ended(ended(kC, aborted(Status::kOutcomeUnknown))));
}

TEST(S1OneOutcome, CommittedForOneAndAbortedForAnotherFails) {
  OneOutcome checker;
  EXPECT_FALSE(checker.ended(ended(kA, committed({kA, kB}))));
  EXPECT_TRUE(checker.ended(ended(kB, aborted(Status::kPeerLost))));
}

TEST(S1OneOutcome, AbortsForDifferentReasonsPass) {
  OneOutcome checker;
  EXPECT_FALSE(checker.ended(ended(kA, aborted(Status::kTimedOut))));
  EXPECT_FALSE(checker.ended(ended(kB, aborted(Status::kAborted))));
}

TEST(S1OneOutcome, ReceiptsThatDifferFail) {
  for (int field = 0; field < 4; ++field) {
    OneOutcome checker;
    EXPECT_FALSE(checker.ended(ended(kA, committed({kA, kB}))));
    peer::Outcome other = committed({kA, kB});
    if (field == 0) other.hash = 98;
    if (field == 1) other.attempt = Generation{1};
    if (field == 2) other.world = 3;
    if (field == 3) other.contributors = std::make_shared<const std::vector<PeerId>>(std::vector{kB, kA});
    EXPECT_TRUE(checker.ended(ended(kB, other))) << field;
  }
}

// ---- S2, S3, S4 on three peers that reduce five elements ----

class Fold : public testing::TestWithParam<Mode> {
 protected:
  static constexpr std::uint64_t kCount = 5;
  static constexpr DataType kType = DataType::kF32;
  static constexpr std::uint64_t kWidth = 4;

  Fold() {
    for (std::size_t i = 0; i < 3; ++i) {
      calls_[i].peer = ids_[i];
      calls_[i].content = 1000 + i;
      calls_[i].segment_bytes = 64;
      calls_[i].request.collective = peer::Collective::kAllReduce;
      calls_[i].request.type = kType;
      const BufferRef send{memory_.make(kCount * kWidth), 0, kCount * kWidth};
      const BufferRef recv{memory_.make(kCount * kWidth), 0, kCount * kWidth};
      calls_[i].buffers = {send.id, recv.id};
      for (const BufferId id : calls_[i].buffers) memory_.lend(id);
      calls_[i].request.tensors.push_back({send, recv, kCount});
      memory_.fill(send, content_of(calls_[i].content, 0), kType);
      calls_[i].inputs.push_back(memory_.fingerprint(send));
      calls_[i].outcome = committed({kA, kB, kC});
    }
  }

  // What a right (or wrong) ring would leave in the first peer's memory.
  void fold_chunk(std::uint64_t begin, std::uint64_t end, std::array<std::size_t, 3> order) {
    const BufferRef into = calls_[0].request.tensors[0].recv.slice(begin * kWidth, (end - begin) * kWidth);
    const auto own = [&](std::size_t i) {
      return calls_[order[i]].request.tensors[0].send.slice(begin * kWidth, (end - begin) * kWidth);
    };
    if (GetParam() == Mode::kToken) {
      Token acc = token_of_content(content_of(calls_[order[0]].content, 0), begin * kWidth, end * kWidth);
      for (std::size_t i = 1; i < 3; ++i) {
        acc = fold(acc, token_of_content(content_of(calls_[order[i]].content, 0), begin * kWidth, end * kWidth), kType,
                   ReduceOp::kSum, 0);
      }
      memory_.write_token(into, Touch::kJob, acc);
      return;
    }
    const auto bytes = memory_.open(into, Touch::kJob);
    std::ranges::copy(memory_.look(own(0)), bytes.begin());
    for (std::size_t i = 1; i < 3; ++i) reference::fold(kType, ReduceOp::kSum, bytes, bytes, memory_.look(own(i)));
  }
  void fold_right() {  // chunks of 2, 2 and 1 elements
    fold_chunk(0, 2, {1, 2, 0});
    fold_chunk(2, 4, {2, 0, 1});
    fold_chunk(4, 5, {0, 1, 2});
  }
  void fold_whole(std::array<std::size_t, 3> order) {
    for (Call& call : calls_) call.segment_bytes = 0;
    fold_chunk(0, kCount, order);
  }
  Complaint judge() {
    return check_exact_fold(calls_[0], memory_, [&](PeerId id, const RoundKey&) -> const Call* {
      for (const Call& call : calls_) {
        if (call.peer == id && !(absent_ == id)) return &call;
      }
      return nullptr;
    });
  }

  Memory memory_{GetParam()};
  std::array<PeerId, 3> ids_{kA, kB, kC};
  std::array<Call, 3> calls_;
  PeerId absent_;
};
INSTANTIATE_TEST_SUITE_P(Modes, Fold, testing::Values(Mode::kToken, Mode::kBytes));

TEST_P(Fold, S2TheFoldInRingOrderPasses) {
  fold_right();
  const Complaint complaint = judge();
  EXPECT_FALSE(complaint) << *complaint;
}

TEST_P(Fold, S2AnotherOrderFails) {
  bool seen = false;
  for (std::uint64_t content = 0; content < 40; ++content) {  // not every three floats show their order
    calls_[0].content = content;
    memory_.fill(calls_[0].request.tensors[0].send, content_of(content, 0), kType);
    fold_right();
    ASSERT_FALSE(judge());
    fold_chunk(2, 4, {0, 1, 2});
    seen = seen || judge().has_value();
  }
  EXPECT_TRUE(seen);
}

TEST_P(Fold, S2ASmallTensorIsOneChunk) {
  bool seen = false;
  for (std::uint64_t content = 0; content < 40; ++content) {
    calls_[0].content = content;
    memory_.fill(calls_[0].request.tensors[0].send, content_of(content, 0), kType);
    fold_whole({1, 2, 0});
    ASSERT_FALSE(judge());
    fold_right();  // as three
    seen = seen || judge().has_value();
  }
  EXPECT_TRUE(seen);
}

TEST_P(Fold, S2AnInputTwiceFails) {
  fold_right();
  fold_chunk(4, 5, {0, 1, 1});
  EXPECT_TRUE(judge());
}

TEST_P(Fold, S2AForgottenRemainderFails) {
  fold_chunk(0, 2, {1, 2, 0});
  fold_chunk(2, 4, {2, 0, 1});
  EXPECT_TRUE(judge());
}

TEST_P(Fold, S2AContributorThatNeverLaunchedFails) {
  fold_right();
  absent_ = kB;
  EXPECT_TRUE(judge());
}

TEST_P(Fold, S2OneWhoIsNoContributorFails) {
  fold_right();
  calls_[0].outcome = committed({kB, kC});
  EXPECT_TRUE(judge());
}

TEST_P(Fold, S3AnInputThatChangedInAnAbortFails) {
  calls_[0].outcome = aborted(Status::kPeerLost);
  EXPECT_FALSE(check_restored(calls_[0], memory_));
  memory_.fill(calls_[0].request.tensors[0].send, 5, kType);
  EXPECT_TRUE(check_restored(calls_[0], memory_));
}

TEST_P(Fold, S4MemoryWrittenAfterCompletionFails) {
  for (const BufferId id : calls_[0].buffers) calls_[0].at_end.push_back(memory_.fingerprint(id));
  EXPECT_FALSE(check_untouched(calls_[0], memory_));
  memory_.fill(calls_[0].request.tensors[0].recv, 5, kType);
  EXPECT_TRUE(check_untouched(calls_[0], memory_));
}

TEST_P(Fold, S4ALoanOrAKernelThatOutlivesTheCallFails) {
  EXPECT_FALSE(check_loans_are_back(calls_[0], {}, {}));
  EXPECT_TRUE(check_loans_are_back(calls_[0], StreamId{2}, {}));
  EXPECT_TRUE(check_loans_are_back(calls_[0], {}, JobToken{1}));
}

TEST_P(Fold, S10ACommitOverDifferentArgumentsFails) {
  const FindCall find = [&](PeerId id, const RoundKey&) { return id == kB ? &calls_[1] : &calls_[0]; };
  EXPECT_FALSE(check_mismatch(calls_[0], find));
  calls_[1].request.op = ReduceOp::kMax;
  EXPECT_TRUE(check_mismatch(calls_[0], find));
  calls_[1].request.op = ReduceOp::kSum;
  calls_[1].request.tensors[0].count = 4;
  EXPECT_TRUE(check_mismatch(calls_[0], find));
}

TEST_P(Fold, S10AMismatchWithoutWordsFails) {
  calls_[0].outcome = aborted(Status::kMismatch);
  EXPECT_FALSE(check_mismatch(calls_[0], {}));
  calls_[0].outcome->text.clear();
  EXPECT_TRUE(check_mismatch(calls_[0], {}));
}

// ---- S6 ----

std::shared_ptr<const wire::View> view(std::uint64_t number,
                                       const std::vector<std::pair<PeerId, std::uint32_t>>& members) {
  wire::View v;
  v.term = Term{1};
  v.number = ViewNumber{number};
  v.cohort = CohortId{number};
  for (const auto& [id, group] : members) {
    wire::Member member;
    member.id = id;
    member.group = GroupId{group};
    v.members.push_back(member);
  }
  return std::make_shared<const wire::View>(v);
}

TEST(S6Membership, OneSequenceOfViewsPasses) {
  Membership checker;
  EXPECT_FALSE(checker.installed(kA, view(1, {{kA, 0}, {kB, 0}})));
  EXPECT_FALSE(checker.installed(kB, view(1, {{kA, 0}, {kB, 0}})));
  EXPECT_FALSE(checker.installed(kA, view(3, {{kA, 0}})));
}

TEST(S6Membership, TwoViewsOfOneNumberFail) {
  Membership checker;
  EXPECT_FALSE(checker.installed(kA, view(1, {{kA, 0}, {kB, 0}})));
  EXPECT_TRUE(checker.installed(kB, view(1, {{kB, 0}, {kA, 0}})));
}

TEST(S6Membership, GoingBackDoublesStrangersAndDisorderFail) {
  Membership checker;
  EXPECT_FALSE(checker.installed(kA, view(2, {{kA, 0}})));
  EXPECT_TRUE(checker.installed(kA, view(1, {{kA, 0}})));
  EXPECT_TRUE(Membership().installed(kA, view(1, {{kA, 0}, {kA, 0}})));
  EXPECT_TRUE(Membership().installed(kC, view(1, {{kA, 0}, {kB, 0}})));
  EXPECT_TRUE(Membership().installed(kA, view(1, {{kB, 1}, {kA, 0}})));
}

// ---- the others ----

TEST(S6Membership, HalfAGangFails) {
  const auto gang = [](const std::vector<PeerId>& ids) {
    auto made = std::make_shared<wire::View>();
    made->number = ViewNumber{1};
    made->cohort = CohortId{1};
    for (const PeerId id : ids)
      made->members.push_back({.id = id, .group = {}, .gang = GangId{7}, .address = {}, .name = {}});
    return made;
  };
  EXPECT_FALSE(Membership(2).installed(kA, gang({kA, kB})));
  EXPECT_TRUE(Membership(2).installed(kA, gang({kA})));
}

TEST(S6Membership, ARoundOutsideItsRingFails) {
  Membership checker;
  EXPECT_FALSE(checker.installed(kA, view(1, {{kA, 0}, {kB, 0}, {kC, 1}})));
  const auto round = [](std::vector<PeerId> ring) {
    Call call = ended(kA, committed(std::move(ring)));
    call.outcome->attempt = Generation{1};
    return call;
  };
  EXPECT_FALSE(checker.ended(round({kA, kB})));
  EXPECT_TRUE(checker.ended(round({kB, kA})));
  EXPECT_TRUE(checker.ended(round({kA})));
  EXPECT_TRUE(checker.ended(round({kA, kB, kC})));
  EXPECT_TRUE(checker.ended(ended(kA, committed({kA, kB}))));  // of an attempt that no view began
}

TEST(S8Once, TwiceOrNeverMadeFails) {
  Call call = ended(kA, committed({kA}));
  Call open;
  EXPECT_FALSE(check_once(&open, kA, CallId{1}, *call.outcome));
  EXPECT_TRUE(check_once(&call, kA, CallId{1}, *call.outcome));
  EXPECT_TRUE(check_once(nullptr, kA, CallId{1}, *call.outcome));
}

TEST(S9Bounds, WhatIsOverALimitFails) {
  peer::Peer::Footprint peer;
  EXPECT_FALSE(check_bounds(peer, kA, 4, 2));
  peer.streams = 1000;
  EXPECT_TRUE(check_bounds(peer, kA, 4, 2));
  peer = {};
  peer.rounds = kMaxRoundsInFlight + 1;
  EXPECT_TRUE(check_bounds(peer, kA, 4, 2));
  peer = {};
  peer.remembered = 1'000'000;
  EXPECT_TRUE(check_bounds(peer, kA, 4, 2));
  coordinator::Coordinator::Footprint c;
  EXPECT_FALSE(check_bounds(c));
  c.members = kMaxMembers + 1;
  EXPECT_TRUE(check_bounds(c));
}

TEST(S11AtRest, WhatIsLeftOverFails) {
  peer::Peer::Footprint peer;
  EXPECT_FALSE(check_at_rest(peer, kA, false, 0));
  EXPECT_TRUE(check_at_rest(peer, kA, true, 0));
  EXPECT_TRUE(check_at_rest(peer, kA, false, 1));
  peer.remembered = 1;
  EXPECT_TRUE(check_at_rest(peer, kA, false, 0));
  coordinator::Coordinator::Footprint c;
  EXPECT_FALSE(check_at_rest(c));
  c.streams = 1;
  EXPECT_TRUE(check_at_rest(c));
}

TEST(L1Ends, ACallThatWaitsTooLongFails) {
  Call call;
  call.made = Instant{0} + seconds(5);
  const Instant healed = Instant{0} + seconds(10);
  EXPECT_FALSE(check_ends(call, healed, healed + seconds(20), seconds(20)));
  EXPECT_TRUE(check_ends(call, healed, healed + seconds(21), seconds(20)));
  call.made = healed + seconds(10);
  EXPECT_FALSE(check_ends(call, healed, healed + seconds(21), seconds(20)));
  call.told_to_wait = true;
  EXPECT_FALSE(check_ends(call, healed, healed + seconds(100), seconds(20)));
}

TEST(L2Causes, AHealthyPeerThatIsLostFails) {
  Causes causes;
  EXPECT_TRUE(causes.lost(kA, {1}, Status::kEvicted, "evicted"));
  causes.began({.fault = Fault::kSlow, .a = 1, .b = 2});
  causes.began({.fault = Fault::kCrash, .a = 2});
  EXPECT_TRUE(causes.lost(kA, {1}, Status::kEvicted, "evicted"));
  EXPECT_FALSE(causes.lost(kA, {1, 2}, Status::kEvicted, "its gang"));
  causes.began({.fault = Fault::kCut, .a = 3, .b = 1});
  EXPECT_FALSE(causes.lost(kA, {1}, Status::kEvicted, "evicted"));
}

// Swarm seed 1916138: the links of one host to all others were reset until none could be opened, and the other end had to go.
// ---- S5: three peers with a state of two pieces, of which the last is a newcomer ----

class S5OneState : public testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 20;

  S5OneState() {
    for (std::size_t i = 0; i < 3; ++i) {
      auto state = std::make_shared<state::Statement>();
      state->manifest.piece_bytes = 10;
      state->manifest.tensors = {{"weights", DataType::kU8, kBytes, false}};
      state->revision = 7;
      statements_[i] = state;
      calls_[i].peer = ids_[i];
      calls_[i].request.collective = peer::Collective::kSync;
      calls_[i].request.state = state;
      calls_[i].request.tensors.push_back({{}, {memory_[i].make(kBytes), 0, kBytes}, kBytes});
    }
    write(2, 5);
    statements_[2]->revision = 0;
    for (std::size_t i = 0; i < 2; ++i) write(i, 1);
    for (std::size_t i = 0; i < 3; ++i) calls_[i].inputs = {memory_[i].fingerprint(weights(i))};
    EXPECT_FALSE(end(0, kBefore, {kA, kB}, 7));  // the first two agreed before
  }

  BufferRef weights(std::size_t i) { return calls_[i].request.tensors[0].recv; }
  void write(std::size_t i, std::uint64_t content) { memory_[i].fill(weights(i), content); }
  void launch(GroupId group = kRound.group) {
    for (const Call& each : calls_) {
      Call call = each;
      call.group = group;
      call.cohort = kRound.cohort;
      call.request.tag = kRound.tag;
      call.use = kRound.use;
      checker_.launched(call);
    }
  }
  Complaint end(std::size_t i, RoundKey round, std::vector<PeerId> contributors, std::uint64_t revision) {
    Call call = calls_[i];
    call.outcome = committed(std::move(contributors));
    call.outcome->round = round;
    call.outcome->revision = revision;
    call.outcome->root = {revision, revision};
    return checker_.ended(call, memory_[i], [&](PeerId peer, const RoundKey&) -> const Call* {
      const auto at = std::find(ids_.begin(), ids_.end(), peer);
      return at == ids_.end() ? nullptr : &calls_[static_cast<std::size_t>(at - ids_.begin())];
    });
  }
  Complaint end(std::size_t i, std::uint64_t revision) { return end(i, kRound, {kA, kB, kC}, revision); }

  static constexpr RoundKey kBefore{CohortId{0}, GroupId{0}, Tag{5}, 8};
  std::array<PeerId, 3> ids_ = {kA, kB, kC};
  std::array<std::shared_ptr<state::Statement>, 3> statements_;
  std::array<Memory, 3> memory_{Memory(Mode::kBytes), Memory(Mode::kBytes), Memory(Mode::kBytes)};
  std::array<Call, 3> calls_;
  OneState checker_;
};

TEST_F(S5OneState, WhatTheMembersHaveIsTakenOver) {
  write(2, 1);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FALSE(end(i, 7)) << i;
}

TEST_F(S5OneState, AMixtureOfTwoStatesFails) {
  memory_[2].fill(weights(2).slice(0, 10), 1);
  EXPECT_TRUE(end(2, 7));
}

TEST_F(S5OneState, ANewcomersStateFails) {
  for (std::size_t i = 0; i < 2; ++i) write(i, 5);
  EXPECT_TRUE(end(0, 0));
}

TEST_F(S5OneState, ARevisionThatGoesBackForOneWhoVotesFails) {
  statements_[1]->revision = 6;
  launch();
  write(2, 1);
  EXPECT_TRUE(end(2, 6));
  statements_[0]->revision = 6;  // now for all of them
  EXPECT_FALSE(end(2, 6));
}

TEST_F(S5OneState, ARevisionThatAGroupThatIsBoundLacksIsNotGoneBackBehind) {
  statements_[1]->revision = 6;
  launch();
  statements_[1]->revision = statements_[0]->revision = 6;
  launch(GroupId{1});
  statements_[0]->revision = 7;
  write(2, 1);
  EXPECT_FALSE(end(2, 6));
}

TEST_F(S5OneState, WhoOnlyReceivesIsNotFollowed) {
  statements_[0]->strategy = statements_[1]->strategy = state::Strategy::kReceiveOnly;
  write(2, 1);
  EXPECT_TRUE(end(2, 7));
}

TEST_F(S5OneState, WhoOnlySendsIsFollowedAndNotWrittenTo) {
  statements_[2]->strategy = state::Strategy::kSendOnly;
  launch();
  EXPECT_TRUE(end(0, 7));
  for (std::size_t i = 0; i < 2; ++i) write(i, 5);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FALSE(end(i, 0)) << i;
  write(2, 1);
  EXPECT_TRUE(end(2, 7));
}

// ---- S5: three peers that watch a state of two tensors beside another round ----

class S5Watched : public testing::Test {
 protected:
  S5Watched() {
    for (std::size_t i = 0; i < 3; ++i) {
      auto state = std::make_shared<state::Statement>();
      state->values = {4};
      state->revision = 7;
      statements_[i] = state;
      calls_[i].peer = ids_[i];
      calls_[i].watched = {11, 12};
      calls_[i].request.watch = std::make_shared<peer::Watched>(peer::Watched{state, {}});
    }
  }

  Complaint told(const std::string& parity, std::size_t i = 0, std::uint64_t tag = 5) {
    Call call = calls_[i];
    call.outcome = committed({kA, kB, kC});
    call.outcome->round.tag = Tag{tag};
    call.outcome->parity = parity;
    const auto at = [&](PeerId peer) {
      return static_cast<std::size_t>(std::find(ids_.begin(), ids_.end(), peer) - ids_.begin());
    };
    return checker_.watched(
        call, [&](PeerId peer, const RoundKey&) { return &calls_[at(peer)]; },
        [&](const Call& of) { return std::string(1, static_cast<char>('a' + at(of.peer))); });
  }

  const std::string names_ = "the state of c differs from that of a (2 of 3 watch the same) in tag 5";
  std::array<PeerId, 3> ids_ = {kA, kB, kC};
  std::array<std::shared_ptr<state::Statement>, 3> statements_;
  std::array<Call, 3> calls_;
  OneState checker_;
};

TEST_F(S5Watched, EqualStatesAreNoNews) {
  EXPECT_FALSE(told(""));
  calls_[2].request.watch.reset();
  EXPECT_FALSE(told(""));
  EXPECT_TRUE(told(names_, 0, 6));
}

TEST_F(S5Watched, ADifferenceIsToldByItsNamesAndItsFirstEntry) {
  calls_[2].watched = {11, 13};
  EXPECT_FALSE(told(names_ + ": first in tensor 1 (w)"));
  EXPECT_FALSE(told(names_ + ": first in tensor 1 (w)", 1));
}

TEST_F(S5Watched, ADifferenceThatIsNotToldFails) {
  calls_[2].watched = {11, 13};
  EXPECT_TRUE(told(""));
}

TEST_F(S5Watched, ADifferenceMayBeToldByItsNamesAlone) {
  calls_[2].watched = {11, 13};
  EXPECT_FALSE(told(names_));
}

TEST_F(S5Watched, TheWrongNamesOrTheWrongEntryFail) {
  statements_[2]->values = {5};
  for (const std::string& wrong :
       {std::string("the state of b differs from that of a (2 of 3 watch the same) in tag 5"),
        names_ + ": first in tensor 1", names_ + ": first in value 1"}) {
    checker_ = {};
    EXPECT_TRUE(told(wrong)) << wrong;
  }
  checker_ = {};
  EXPECT_FALSE(told(names_ + ": first in value 0 (step uint)"));
}

TEST_F(S5Watched, TheRevisionIsTheLastThatIsCompared) {
  statements_[2]->revision = 8;
  EXPECT_FALSE(told(names_ + ": first in the revision (8, not 7)"));
}

TEST_F(S5Watched, AllAreToldTheSame) {
  calls_[2].watched = {11, 13};
  EXPECT_FALSE(told(names_));
  EXPECT_TRUE(told(names_ + ": first in tensor 1 (w)", 1));
}

TEST_F(S5Watched, WhatALostOneHeldMayNotHaveCounted) {
  calls_[2].watched = {11, 13};
  checker_.lost(kC);
  EXPECT_FALSE(told(""));
}

TEST(L2Causes, WhatBreaksOneHostsLinksToAllTouchesAll) {
  Causes causes;
  causes.began({.fault = Fault::kReset, .a = 2, .b = 3});
  EXPECT_TRUE(causes.lost(kA, {1}, Status::kEvicted, "evicted"));
  causes.began({.fault = Fault::kReset, .a = 2, .b = 2});
  EXPECT_FALSE(causes.lost(kA, {1}, Status::kEvicted, "evicted"));
}

TEST(L2Causes, WhoFalsifiesPiecesIsTheCauseThatTheyAreRefusedAndOfNoOtherBreach) {
  Causes causes;
  trace::Event event{.kind = trace::Kind::kProtocolError, .view = {}, .peer = kA, .round = {}, .text = {}};
  event.text = "a piece of the state whose digest is wrong";
  EXPECT_TRUE(causes.noted(kB, event));
  causes.began({.fault = Fault::kSpoil, .a = 1});
  EXPECT_FALSE(causes.noted(kB, event));
  EXPECT_TRUE(causes.lost(kB, {2}, Status::kEvicted, "it and h1 cannot reach each other")) << "their link is whole";
  event.text = "a message that neighbours do not send";
  EXPECT_TRUE(causes.noted(kB, event));
}

TEST(L2Causes, NothingIsTheCauseOfABreachOfTheProtocol) {
  Causes causes;
  causes.began({.fault = Fault::kCrash, .a = 1});
  EXPECT_TRUE(causes.lost(kA, {1}, Status::kProtocolError, "done twice"));
  trace::Event event{.kind = trace::Kind::kLinkLost, .view = {}, .peer = kA, .round = {}, .text = {}};
  EXPECT_FALSE(causes.noted(PeerId{1, 2}, event));
  event.kind = trace::Kind::kProtocolError;
  EXPECT_TRUE(causes.noted(PeerId{1, 2}, event));
  event.kind = trace::Kind::kPeerRefused;
  EXPECT_FALSE(causes.noted(PeerId{1, 2}, event));
  event.status = Status::kProtocolError;
  EXPECT_TRUE(causes.noted(PeerId{1, 2}, event));
}

TEST(L2Causes, AnAbortWithoutACauseFails) {
  Causes causes;
  const Call call = ended(kA, aborted(Status::kPeerLost));
  EXPECT_TRUE(causes.aborted(call, false));
  causes.began({.fault = Fault::kJoin, .a = 1});
  EXPECT_TRUE(causes.aborted(call, false));
  causes.began({.fault = Fault::kLeave, .a = 1});
  EXPECT_FALSE(causes.aborted(call, false));
}

TEST(L2Causes, ARunThatBeginsWithFewerThanACallWantsRefusesIt) {
  Call call = ended(kA, aborted(Status::kBelowMinimum));
  call.request.minimum_world = 3;
  EXPECT_TRUE(Causes(3).aborted(call, false));
  EXPECT_FALSE(Causes(2).aborted(call, false));
}

TEST(L2Causes, EveryStatusHasCausesOfItsOwn) {
  const std::pair<Status, Fault> causes_of[] = {
      {Status::kMismatch, Fault::kMismatch},  {Status::kAborted, Fault::kStop},
      {Status::kTimedOut, Fault::kTimeout},   {Status::kCohortClosed, Fault::kSkip},
      {Status::kBelowMinimum, Fault::kCrash}, {Status::kWorldChanged, Fault::kLeave}};
  for (const auto& [status, fault] : causes_of) {
    Causes causes;
    causes.began({.fault = Fault::kJoin, .a = 1});
    EXPECT_TRUE(causes.aborted(ended(kA, aborted(status)), false)) << status_name(status);
    causes.began({.fault = fault, .a = 1});
    EXPECT_FALSE(causes.aborted(ended(kA, aborted(status)), false)) << status_name(status);
    EXPECT_TRUE(causes.aborted(ended(kA, aborted(Status::kInternal)), false));
  }
  Causes nothing;
  EXPECT_TRUE(nothing.aborted(ended(kA, aborted(Status::kOutcomeUnknown)), false));
  EXPECT_FALSE(nothing.aborted(ended(kA, aborted(Status::kOutcomeUnknown)), true));
  Causes skipped;
  skipped.began({.fault = Fault::kSkip, .a = 1});
  Call small = ended(kA, aborted(Status::kBufferTooSmall));
  small.request.collective = peer::Collective::kAllGather;
  EXPECT_FALSE(skipped.aborted(small, false));
  EXPECT_TRUE(nothing.aborted(small, false));
  small.request.collective = peer::Collective::kAllReduce;
  EXPECT_TRUE(skipped.aborted(small, false));
  Call timed = ended(kA, aborted(Status::kTimedOut));
  timed.request.timeout = seconds(1);
  EXPECT_FALSE(nothing.aborted(timed, false));
}

TEST(S10Arguments, WhatAllAgreedOnIsKept) {
  Call call = ended(kA, committed({kA, kB}));
  call.request.minimum_world = 2;
  EXPECT_FALSE(check_arguments_kept(call, 2));
  call.request.minimum_world = 3;
  EXPECT_TRUE(check_arguments_kept(call, 2));
  Call retried = ended(kA, committed({kA, kB}));
  retried.outcome->retries = 1;
  EXPECT_FALSE(check_arguments_kept(retried, 2));
  retried.request.retry = false;
  EXPECT_TRUE(check_arguments_kept(retried, 2));
  Call admit = ended(kA, peer::Outcome{});
  admit.kind = CallKind::kAdmit;
  admit.at_least = 3;
  EXPECT_FALSE(check_arguments_kept(admit, 3));
  EXPECT_TRUE(check_arguments_kept(admit, 2));
}

TEST(S1OneOutcome, GroupsThatShareAGangHaveOneOutcome) {
  wire::View cohort;
  const auto add = [&](std::uint64_t id, std::uint32_t group, std::uint64_t gang) {
    cohort.members.push_back({{id, id}, GroupId{group}, GangId{gang}, {}, {}});
  };
  const auto outcome_in_two = [&](const wire::View* view) {
    peer::Outcome other = aborted(Status::kPeerLost);
    other.round.group = GroupId{2};
    OneOutcome checker;
    EXPECT_FALSE(checker.ended(ended(kA, committed({kA, kB})), view));
    return checker.ended(ended(kC, other), view);
  };
  EXPECT_FALSE(outcome_in_two(nullptr));
  add(1, 0, 7);
  add(2, 1, 7);
  add(3, 1, 8);
  add(4, 2, 9);
  EXPECT_FALSE(outcome_in_two(&cohort));
  add(5, 2, 8);  // bound through group 1
  EXPECT_TRUE(outcome_in_two(&cohort));
}

// ---- P1 ----

// Seven elements on three ranks, in segments: chunks of 3, 2 and 2.
Call all_reduced(PeerId peer, std::uint64_t sent, std::uint64_t received) {
  Call call = ended(peer, committed({kA, kB, kC}));
  call.request.collective = peer::Collective::kAllReduce;
  call.request.type = DataType::kF32;
  call.request.tensors.push_back({{}, {}, 7});
  call.segment_bytes = 64;
  call.outcome->bytes_sent = sent;
  call.outcome->bytes_received = received;
  return call;
}

constexpr std::uint64_t kFloat = 4;  // bytes

TEST(P1Bytes, EveryRankSendsAllChunksButOneInEachPhase) {
  EXPECT_FALSE(check_bytes_sent(all_reduced(kA, kFloat * (4 + 5), kFloat * (5 + 4)), 0));
  EXPECT_FALSE(check_bytes_sent(all_reduced(kB, kFloat * (5 + 5), kFloat * (4 + 5)), 0));
  EXPECT_FALSE(check_bytes_sent(all_reduced(kC, kFloat * (5 + 4), kFloat * (5 + 5)), 0));
  EXPECT_TRUE(check_bytes_sent(all_reduced(kA, kFloat * (4 + 5) + 1, kFloat * (5 + 4)), 0));
  EXPECT_TRUE(check_bytes_sent(all_reduced(kA, kFloat * (4 + 5), kFloat * (5 + 4) - 4), 0));
}

TEST(P1Bytes, ASmallTensorGoesWholeFromAllButItsOwnerAndBackToAllButTheLast) {
  const auto whole = [](PeerId peer, std::uint64_t sent, std::uint64_t received) {
    Call call = all_reduced(peer, sent, received);
    call.segment_bytes = 0;
    return check_bytes_sent(call, 0);
  };
  EXPECT_FALSE(whole(kA, kFloat * 7, kFloat * 7));
  EXPECT_FALSE(whole(kB, 2 * kFloat * 7, kFloat * 7));
  EXPECT_FALSE(whole(kC, kFloat * 7, 2 * kFloat * 7));
  EXPECT_TRUE(whole(kA, 2 * kFloat * 7, kFloat * 7));
  EXPECT_TRUE(whole(kA, kFloat * (4 + 5), kFloat * (5 + 4)));
}

TEST(P1Bytes, WhatWasLostMayTravelAgainButNotForEver) {
  EXPECT_FALSE(check_bytes_sent(all_reduced(kA, 2 * kFloat * 9, kFloat * 9), 1));
  EXPECT_TRUE(check_bytes_sent(all_reduced(kA, 1000, kFloat * 9), 1));
  Call retried = all_reduced(kA, 2 * kFloat * 9, kFloat * 9);
  retried.outcome->retries = 1;
  EXPECT_FALSE(check_bytes_sent(retried, 0));
}

TEST(P1Bytes, OtherCollectivesSendWhatTheirShapeTakes) {
  Call call = all_reduced(kA, kFloat * 4, kFloat * 5);
  call.request.collective = peer::Collective::kReduceScatter;
  EXPECT_FALSE(check_bytes_sent(call, 0));
  call = all_reduced(kB, kFloat * 7, kFloat * 7);
  call.request.collective = peer::Collective::kBroadcast;
  call.request.root = kA;
  EXPECT_FALSE(check_bytes_sent(call, 0));
  call = all_reduced(kC, 0, kFloat * 7);  // the last of the chain
  call.request.collective = peer::Collective::kBroadcast;
  call.request.root = kA;
  EXPECT_FALSE(check_bytes_sent(call, 0));
  call = all_reduced(kA, kFloat * (1 + 4), kFloat * (2 + 4));
  call.request.collective = peer::Collective::kAllGather;
  call.outcome->blocks = {1, 2, 4};  // all but its neighbour's, and all but its own
  EXPECT_FALSE(check_bytes_sent(call, 0));
  call.outcome->bytes_sent = kFloat * (1 + 2 + 4);
  EXPECT_TRUE(check_bytes_sent(call, 0));
  call = all_reduced(kA, 0, 0);
  call.request.collective = peer::Collective::kBarrier;
  EXPECT_FALSE(check_bytes_sent(call, 0));
}

}  // namespace
}  // namespace lockstep::sim
