// Three peers with a state of two pieces, of which the last is a newcomer.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/checkers/s5_one_state.h"
#include "tests/sim/checkers/calls.h"

namespace lockstep::sim {
namespace {

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
      calls_[i].request.collective = wire::Collective::kSync;
      calls_[i].request.state = state;
      calls_[i].request.tensors.push_back({{}, {memory_[i].make(kBytes), 0, kBytes}, kBytes});
    }
    write(2, 5);
    statements_[2]->revision = 0;
    for (std::size_t i = 0; i < 2; ++i) write(i, 1);
    for (std::size_t i = 0; i < 3; ++i) calls_[i].prints.inputs = {memory_[i].fingerprint(weights(i))};
    EXPECT_FALSE(end(0, kBefore, {kA, kB}, 7));  // the first two agreed before
  }

  BufferRef weights(std::size_t i) { return calls_[i].request.tensors[0].recv; }
  void write(std::size_t i, std::uint64_t content) { memory_[i].fill(weights(i), content); }
  void launch(GroupId group = kRound.group) {
    for (const Call& each : calls_) {
      Call call = each;
      call.group = group;
      call.launch.cohort = kRound.cohort;
      call.request.tag = kRound.tag;
      call.launch.use = kRound.use;
      checker_.launched(call);
    }
  }
  Complaint end(std::size_t i, RoundKey round, std::vector<PeerId> contributors, std::uint64_t revision,
                Lineage lineage = Lineage{9}) {
    Call call = calls_[i];
    call.outcome = committed(std::move(contributors));
    call.outcome->round = round;
    call.outcome->revision = revision;
    call.outcome->root = {revision, revision};
    call.outcome->lineage = lineage;
    return checker_.ended(call, memory_[i], [&](PeerId peer, const RoundKey&) -> const Call* {
      const auto at = std::find(ids_.begin(), ids_.end(), peer);
      return at == ids_.end() ? nullptr : &calls_[static_cast<std::size_t>(at - ids_.begin())];
    });
  }
  Complaint end(std::size_t i, std::uint64_t revision) { return end(i, kRound, {kA, kB, kC}, revision); }
  // After end(): the sync of the first peer has told this.
  Complaint told(const std::string& text, std::uint64_t revision = 7, std::size_t i = 0) {
    Call call = calls_[i];
    call.outcome = committed({kA, kB, kC});
    call.outcome->revision = revision;
    call.outcome->root = {revision, revision};
    call.outcome->state_difference = text;
    const auto at = [&](PeerId peer) {
      return static_cast<std::size_t>(std::find(ids_.begin(), ids_.end(), peer) - ids_.begin());
    };
    return checker_.repaired(
        call, [&](PeerId peer, const RoundKey&) { return &calls_[at(peer)]; },
        [&](const Call& of) { return std::string(1, static_cast<char>('a' + at(of.peer))); });
  }
  // b, a member of the last agreement, comes with other bytes.
  void stray() {
    write(1, 8);
    calls_[1].prints.inputs = {memory_[1].fingerprint(weights(1))};
    launch();
    write(1, 1);
    write(2, 1);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_FALSE(end(i, 7)) << i;
  }

  static constexpr RoundKey kBefore{CohortId{0}, GroupId{0}, Tag{5}, 8};
  std::array<PeerId, 3> ids_ = {kA, kB, kC};
  std::array<std::shared_ptr<state::Statement>, 3> statements_;
  std::array<Memory, 3> memory_{Memory(Mode::kBytes), Memory(Mode::kBytes), Memory(Mode::kBytes)};
  std::array<Call, 3> calls_;
  OneState checker_;
};

TEST_F(S5OneState, ANewcomerTakesTheStateOfTheMembers) {
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

TEST_F(S5OneState, ARevisionBelowThatOfAVoterFails) {
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

TEST_F(S5OneState, NobodyBringsAStateOnlyIfFailedSyncsHaveLeftAllWithAPart) {
  wire::View founding;
  for (const PeerId id : ids_) founding.members.push_back({id, {}, {}, {}, {}});
  const FindCall find = [&](PeerId peer, const RoundKey&) -> const Call* {
    return &calls_[static_cast<std::size_t>(std::find(ids_.begin(), ids_.end(), peer) - ids_.begin())];
  };
  Call undefined = calls_[0];
  undefined.outcome = aborted(Status::kStateUndefined);
  for (std::size_t i = 0; i < 3; ++i) {
    launch();
    EXPECT_FALSE(checker_.nobody_brings(undefined, founding, find)) << i << " members have a part";
    Call failed = calls_[i];
    failed.request.tag = kRound.tag;
    failed.outcome = aborted(Status::kAborted);
    failed.outcome->state_defined = false;
    EXPECT_FALSE(checker_.ended(failed, memory_[i], find));
  }
  launch();
  EXPECT_TRUE(checker_.nobody_brings(undefined, founding, find));
}

// Rule 53.
TEST_F(S5OneState, ANewcomersProgressThatIsOverwrittenFails) {
  statements_[2]->revision = 8;
  launch();
  write(2, 1);
  EXPECT_TRUE(end(0, 7));
  EXPECT_TRUE(end(2, 7));
  statements_[2]->strategy = state::Strategy::kReceiveOnly;  // it lets its state go
  EXPECT_FALSE(end(2, 7));
}

TEST_F(S5OneState, ANewcomerThatVotesForTheNewestRevisionWinsIfItIsAhead) {
  statements_[2]->strategy = state::Strategy::kNewest;
  for (const std::uint64_t revision : {7U, 8U}) {
    statements_[2]->revision = revision;
    launch();
    for (std::size_t i = 0; i < 2; ++i) write(i, 5);
    EXPECT_EQ(end(0, revision).has_value(), revision == 7) << "with the revision of the members it only receives";
  }
}

TEST_F(S5OneState, ALineageIsThatOfASourceAndOfAll) {
  const std::vector<PeerId> all = {kA, kB, kC};
  write(2, 1);
  EXPECT_TRUE(end(0, kRound, all, 7, Lineage{}));
  RoundKey round = kRound;
  round.use += 1;
  EXPECT_FALSE(end(0, round, all, 7, Lineage{4}));  // no source has one: it begins
  EXPECT_TRUE(end(1, round, all, 7, Lineage{5})) << "that of others is 4";
  statements_[0]->lineage = Lineage{6};
  round.use += 1;
  EXPECT_TRUE(end(0, round, all, 7, Lineage{4})) << "the source has 6";
  round.use += 1;
  EXPECT_FALSE(end(0, round, all, 7, Lineage{6}));
}

// Rule 55.
TEST_F(S5OneState, ATakeOverOfANewcomerIsNoRepair) {
  write(2, 1);
  EXPECT_FALSE(end(0, 7));
  EXPECT_FALSE(told(""));
  EXPECT_TRUE(told("state of revision 0 on c was behind revision 7 and was overwritten", 7, 1)) << "others are told ''";
}

TEST_F(S5OneState, ARepairThatIsNoneFails) {
  write(2, 1);
  EXPECT_FALSE(end(0, 7));
  EXPECT_TRUE(told("state of revision 0 on c was behind revision 7, differed in 'weights' and was overwritten"));
}

TEST_F(S5OneState, ARepairIsToldWithThePeerAndTheTensor) {
  stray();
  EXPECT_FALSE(
      told("state of revision 7 differed on b in 'weights' (2 of 2 pieces) and was overwritten with that of a"));
  EXPECT_TRUE(told("", 7, 1)) << "others are told more";
}

TEST_F(S5OneState, ARepairThatIsNotToldFails) {
  stray();
  EXPECT_TRUE(told(""));
}

TEST_F(S5OneState, ARepairOfAnotherPeerOrTensorFails) {
  stray();
  EXPECT_TRUE(
      told("state of revision 7 differed on a in 'weights' (2 of 2 pieces) and was overwritten with that of b"));
}

TEST_F(S5OneState, AMemberThatIsBehindIsARepair) {
  statements_[1]->revision = 6;
  launch();
  write(2, 1);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FALSE(end(i, 7)) << i;
  EXPECT_FALSE(told("state of revision 6 on b was behind revision 7 and was overwritten with that of a"));
}

TEST_F(S5OneState, AMemberThatOnlyReceivesIsNoRepair) {
  statements_[1]->strategy = state::Strategy::kReceiveOnly;
  stray();
  EXPECT_FALSE(told(""));
}

TEST_F(S5OneState, AReceiveOnlyPeerIsNotFollowed) {
  statements_[0]->strategy = statements_[1]->strategy = state::Strategy::kReceiveOnly;
  write(2, 1);
  EXPECT_TRUE(end(2, 7));
}

TEST_F(S5OneState, ASendOnlyPeerIsFollowedAndNotWrittenTo) {
  statements_[2]->strategy = state::Strategy::kSendOnly;
  launch();
  EXPECT_TRUE(end(0, 7));
  for (std::size_t i = 0; i < 2; ++i) write(i, 5);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FALSE(end(i, 0)) << i;
  write(2, 1);
  EXPECT_TRUE(end(2, 7));
}

}  // namespace
}  // namespace lockstep::sim
