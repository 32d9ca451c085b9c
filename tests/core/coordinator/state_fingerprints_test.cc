// States that members watch beside a round: which peers differ, and how long the commit waits to find the difference.
#include "core/coordinator/state_fingerprints.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/coordinator/rounds.h"
#include "core/wire/limits.h"

namespace lockstep::coordinator {
namespace {

constexpr PeerId kFirst{1, 1};
constexpr PeerId kSecond{2, 2};
constexpr PeerId kThird{3, 3};

RoundKey round_of(std::uint64_t tag = 7) { return {CohortId{1}, {}, Tag{tag}, 0}; }

wire::View view_of_three() {
  wire::View view;
  view.number = ViewNumber{1};
  view.cohort = CohortId{1};
  for (const PeerId peer : {kFirst, kSecond, kThird}) {
    view.members.push_back({peer, {}, {}, {}, std::string(1, static_cast<char>('a' + peer.low - 1))});
  }
  return view;
}

std::string difference_of(std::vector<std::uint64_t> fingerprints) {
  const wire::View view = view_of_three();
  StateFingerprints fingerprints_of_all;
  for (std::size_t i = 0; i < fingerprints.size(); ++i) fingerprints_of_all.add(view.members[i].id, fingerprints[i]);
  const auto difference = fingerprints_of_all.difference(view.members);
  return difference ? describe(*difference, view.members, Tag{7}) : "none";
}

TEST(StateFingerprints, NamesTheFirstPeerThatDiffersFromTheMajority) {
  const struct {
    std::vector<std::uint64_t> fingerprints;
    std::string difference;
  } cases[] = {
      {{}, "none"},
      {{0, 0, 0}, "none"},
      {{0, 8, 0}, "none"},
      {{8, 0, 8}, "none"},
      {{8, 8, 8}, "none"},
      {{8, 8, 9}, "the state of c differs from that of a (2 of 3 watch the same) in tag 7"},
      {{9, 8, 8}, "the state of a differs from that of b (2 of 3 watch the same) in tag 7"},
      {{9, 8, 7}, "the state of b differs from that of a (1 of 3 watch the same) in tag 7"},
      {{9, 0, 8}, "the state of c differs from that of a (1 of 2 watch the same) in tag 7"},
  };
  for (const auto& each : cases) EXPECT_EQ(difference_of(each.fingerprints), each.difference);
}

class WatchOfThree : public testing::Test {
 protected:
  WatchOfThree() { rounds_.admit(view_, {}); }

  Rounds::DoneResult done(PeerId peer, std::uint64_t fingerprint, std::uint64_t tag = 7) {
    return rounds_.on_done(peer, {round_of(tag), Generation{1}, {}, 5, fingerprint});
  }
  // Ada's, ben's and cleo's fingerprint.
  Rounds::DoneResult all_done(std::vector<std::uint64_t> fingerprints, std::uint64_t tag = 7) {
    EXPECT_TRUE(done(kFirst, fingerprints[0], tag).committed.empty());
    EXPECT_TRUE(done(kSecond, fingerprints[1], tag).committed.empty());
    return done(kThird, fingerprints[2], tag);
  }
  // Ada's and cleo's states differ, and the coordinator asks both.
  void differ(std::uint64_t tag = 7) {
    const auto result = all_done({8, 8, 9}, tag);
    EXPECT_TRUE(result.committed.empty() && !result.stop);
    EXPECT_TRUE(result.compares_watched && rounds_.compares_watched());
    ASSERT_EQ(result.questions.size(), 2U);
    EXPECT_EQ(result.questions[0].first, kFirst);
    EXPECT_EQ(result.questions[1].first, kThird);
    EXPECT_EQ(std::get<wire::AskOutline>(result.questions[0].second).of, wire::Outlined::kManifest);
  }
  // Ada and cleo have the same manifest.
  void are_stated_alike() {
    EXPECT_TRUE(rounds_.on_outline(kFirst, outline({1})).questions.empty());
    const auto result = rounds_.on_outline(kThird, outline({1}));
    EXPECT_TRUE(result.committed.empty() && !result.stop);
    ASSERT_EQ(result.questions.size(), 2U);
    EXPECT_EQ(result.questions[0].first, kFirst);
    EXPECT_EQ(result.questions[1].first, kThird);
    for (const auto& [peer, question] : result.questions) {
      EXPECT_EQ(std::get<wire::AskOutline>(question).of, wire::Outlined::kContents);
    }
  }
  static wire::StateOutline outline(std::vector<std::uint64_t> tensors, std::vector<std::uint64_t> values = {},
                                    std::uint64_t revision = 4) {
    return {round_of(), Generation{1}, 64, std::move(tensors), std::move(values), revision};
  }
  // Ada and cleo answer. Returns the text for all members.
  std::string answers(const wire::StateOutline& ada, const wire::StateOutline& cleo) {
    EXPECT_TRUE(rounds_.on_outline(kFirst, ada).committed.empty());
    Rounds::DoneResult result = rounds_.on_outline(kThird, cleo);
    for (const auto& [peer, question] : std::exchange(result.questions, {})) {
      EXPECT_TRUE(result.committed.empty());
      result = rounds_.on_entry(peer, {round_of(), Generation{1}, "w f32 [10]"});
    }
    EXPECT_TRUE(result.violation.empty()) << result.violation;
    EXPECT_EQ(result.committed.size(), 1U);
    EXPECT_EQ(result.committed.front().members.size(), 3U);
    EXPECT_FALSE(rounds_.compares_watched());
    EXPECT_EQ(rounds_.size(), 0U);
    return result.committed.empty() ? "" : result.committed.front().commit.state_difference;
  }

  const std::string names_ = "the state of c differs from that of a (2 of 3 watch the same) in tag 7";
  wire::View view_ = view_of_three();
  Rounds rounds_;
};

TEST_F(WatchOfThree, EqualStatesCommitAtOnce) {
  for (const auto& fingerprints : {std::vector<std::uint64_t>{8, 8, 8}, {8, 0, 8}, {0, 0, 0}, {0, 9, 0}}) {
    const auto result = all_done(fingerprints);
    EXPECT_TRUE(result.questions.empty() && !result.compares_watched);
    ASSERT_EQ(result.committed.size(), 1U);
    EXPECT_EQ(result.committed.front().commit.state_difference, "");
  }
}

TEST_F(WatchOfThree, ReportsTheFirstDifferentTensor) {
  differ();
  are_stated_alike();
  EXPECT_EQ(answers(outline({1, 2, 3}), outline({1, 2, 4}, {}, 5)), names_ + ": first in tensor 2 (w f32 [10])");
}

TEST_F(WatchOfThree, ReportsTheFirstDifferentValue) {
  differ();
  are_stated_alike();
  EXPECT_EQ(answers(outline({1}, {6, 7}), outline({1}, {6, 8})), names_ + ": first in value 1 (w f32 [10])");
}

TEST_F(WatchOfThree, ReportsDifferentRevisions) {
  differ();
  are_stated_alike();
  EXPECT_EQ(answers(outline({1}, {6}, 4), outline({1}, {6}, 5)), names_ + ": first in the revision (5, not 4)");
}

TEST_F(WatchOfThree, ReportsAnEntryThatOnlyOnePeerHas) {
  differ();
  are_stated_alike();
  EXPECT_EQ(answers(outline({1}), outline({1, 2})), names_ + ": first in tensor 1 (w f32 [10])");
}

TEST_F(WatchOfThree, WithEqualOutlinesReportsTheNamesOnly) {
  differ();
  are_stated_alike();
  EXPECT_EQ(answers(outline({1}), outline({1})), names_);
}

// Found by a user: tensors with different names or sizes were reported as different bytes, or without a place.
TEST_F(WatchOfThree, StatesWithDifferentManifestsAreNotComparedByContents) {
  differ();
  EXPECT_TRUE(rounds_.on_outline(kFirst, outline({1, 2})).questions.empty());
  Rounds::DoneResult result = rounds_.on_outline(kThird, outline({1, 3}));
  ASSERT_EQ(result.questions.size(), 2U);
  for (const auto& [peer, question] : std::exchange(result.questions, {})) {
    EXPECT_EQ(std::get<wire::AskEntry>(question).index, 1U);
    EXPECT_TRUE(result.committed.empty());
    result = rounds_.on_entry(peer, {round_of(), Generation{1}, peer == kFirst ? "x f32 [8]" : "x f32 [7]"});
  }
  ASSERT_EQ(result.committed.size(), 1U);
  EXPECT_EQ(result.committed.front().commit.state_difference,
            names_ +
                ": their descriptions differ: tensor 1: a: x f32 [8]; c: x f32 [7]: state the same tensors and "
                "values on all peers");
  EXPECT_FALSE(rounds_.compares_watched());
}

TEST_F(WatchOfThree, WhileOneRoundIsComparedOtherRoundsNameOnlyPeers) {
  differ();
  const auto other = all_done({8, 9, 8}, 8);
  EXPECT_TRUE(other.questions.empty());
  ASSERT_EQ(other.committed.size(), 1U);
  EXPECT_EQ(other.committed.front().commit.state_difference,
            "the state of b differs from that of a (2 of 3 watch the same) in tag 8");
  are_stated_alike();
  EXPECT_EQ(answers(outline({1}), outline({2})), names_ + ": first in tensor 0 (w f32 [10])");
}

TEST_F(WatchOfThree, GivesUpAPeerThatDoesNotAnswer) {
  differ();
  const auto result = rounds_.give_up_comparison();
  ASSERT_EQ(result.committed.size(), 1U);
  EXPECT_EQ(result.committed.front().commit.state_difference, names_);
  EXPECT_TRUE(rounds_.on_outline(kFirst, outline({1})).violation.empty());  // late
  differ(8);                                                                // there is room again
}

TEST_F(WatchOfThree, AForgedClaimChangesNothing) {
  differ();
  wire::Claim claim{round_of(), Generation{1}, {}, state::Strategy::kPopular, true, 4, {5, 5}, {}};
  claim.what.collective = wire::Collective::kSync;
  (void)rounds_.on_claim(kThird, claim);
  EXPECT_TRUE(rounds_.compares_watched());
  ASSERT_EQ(rounds_.give_up_comparison().committed.size(), 1U);
}

TEST_F(WatchOfThree, ReportsAKnownDifferenceWithoutAsking) {
  differ();
  are_stated_alike();
  EXPECT_TRUE(rounds_.on_outline(kFirst, outline({1})).committed.empty());
  EXPECT_EQ(rounds_.on_outline(kThird, outline({2})).questions.size(), 1U);
  EXPECT_EQ(rounds_.give_up_comparison().committed.front().commit.state_difference, names_ + ": first in tensor 0");
}

TEST_F(WatchOfThree, ReportsAKnownDifferenceOfManifestsWithoutAsking) {
  differ();
  EXPECT_TRUE(rounds_.on_outline(kFirst, outline({1})).committed.empty());
  EXPECT_EQ(rounds_.on_outline(kThird, outline({2})).questions.size(), 2U);
  EXPECT_TRUE(rounds_.on_entry(kFirst, {round_of(), Generation{1}, "w f32 [10]"}).committed.empty());
  EXPECT_EQ(rounds_.give_up_comparison().committed.front().commit.state_difference,
            names_ + ": their descriptions differ: tensor 0: state the same tensors and values on all peers");
}

TEST_F(WatchOfThree, ARequestedStopCommitsByVerdict) {
  differ();
  EXPECT_TRUE(
      rounds_.on_stop(kSecond, {round_of(), Generation{1}, Status::kTimedOut, true, "timed out"}).violation.empty());
  EXPECT_TRUE(rounds_.give_up_comparison().committed.empty());
  const auto verdicts = rounds_.verdicts({}, view_);
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts.front().status, Status::kOk);
  EXPECT_EQ(verdicts.front().text, names_);
}

TEST_F(WatchOfThree, ALossCommitsByVerdict) {
  differ();
  Rounds::Change change;
  change.lost = {kThird};
  change.flushed = {{kFirst, {{round_of(), Generation{1}, true, true, 5}}},
                    {kSecond, {{round_of(), Generation{1}, true, true, 5}}}};
  wire::View next = view_;
  next.number = ViewNumber{2};
  next.members.pop_back();
  const auto verdicts = rounds_.verdicts(change, next);
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts.front().status, Status::kOk);
  EXPECT_EQ(verdicts.front().text, names_);
  EXPECT_EQ(rounds_.install(change, next, verdicts).size(), 1U);
  EXPECT_FALSE(rounds_.compares_watched());
  EXPECT_TRUE(rounds_.on_outline(kFirst, outline({1})).violation.empty());  // late
}

TEST_F(WatchOfThree, ALongTextIsCut) {
  differ();
  are_stated_alike();
  (void)rounds_.on_outline(kFirst, outline({1}));
  (void)rounds_.on_outline(kThird, outline({2}));
  const auto result = rounds_.on_entry(kFirst, {round_of(), Generation{1}, std::string(2 * kMaxTextBytes, 'w')});
  ASSERT_EQ(result.committed.size(), 1U);
  EXPECT_EQ(result.committed.front().commit.state_difference.size(), kMaxTextBytes);
}

TEST_F(WatchOfThree, ASyncComparesTheClaimedStates) {
  wire::Done sync{round_of(), Generation{1}, {}, 5, 9};
  sync.what.collective = wire::Collective::kSync;
  EXPECT_FALSE(rounds_.on_done(kFirst, sync).violation.empty());
}

// Two bound groups: each has a shard of the state and compares its own shard.
TEST_F(WatchOfThree, BoundGroupsCompareSeparatelyAndCommitTogether) {
  view_.cohort = CohortId{2};
  view_.number = ViewNumber{2};
  const PeerId dan{4, 4};
  view_.members = {{kFirst, GroupId{0}, GangId{1}, {}, "a"},
                   {kSecond, GroupId{0}, GangId{2}, {}, "b"},
                   {kThird, GroupId{1}, GangId{1}, {}, "c"},
                   {dan, GroupId{1}, GangId{2}, {}, "d"}};
  rounds_.admit(view_, {});
  const auto done_in = [&](PeerId peer, std::uint32_t group, std::uint64_t fingerprint, std::uint64_t tag = 7) {
    return rounds_.on_done(peer, {{CohortId{2}, GroupId{group}, Tag{tag}, 0}, Generation{2}, {}, 5, fingerprint});
  };
  (void)done_in(kFirst, 0, 8);
  (void)done_in(kSecond, 0, 8);
  (void)done_in(kThird, 1, 9);
  EXPECT_EQ(done_in(dan, 1, 9).committed.size(), 2U) << "the groups' shards differ, as they should";
  (void)done_in(kFirst, 0, 8, 8);
  (void)done_in(kSecond, 0, 8, 8);
  (void)done_in(kThird, 1, 9, 8);
  EXPECT_EQ(done_in(dan, 1, 7, 8).questions.size(), 2U);
  const auto result = rounds_.give_up_comparison();
  ASSERT_EQ(result.committed.size(), 2U);
  EXPECT_EQ(result.committed[0].commit.state_difference, "");
  EXPECT_EQ(result.committed[1].commit.state_difference,
            "the state of d differs from that of c (1 of 2 watch the same) in tag 8");
}

}  // namespace
}  // namespace lockstep::coordinator
