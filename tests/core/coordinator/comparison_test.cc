// Comparing states that contradict each other: which peers are asked, what all members learn, and what ends a
// comparison.
#include "core/coordinator/comparison.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/coordinator/rounds.h"

namespace lockstep::coordinator {
namespace {

constexpr PeerId kAda{1, 1};
constexpr PeerId kBen{2, 2};
constexpr PeerId kCleo{3, 3};

const std::string kHint = ": state the same tensors and values on all peers";

RoundKey key(std::uint64_t tag = 7) { return {CohortId{1}, {}, Tag{tag}, 0}; }

wire::StateOutline outline(std::vector<std::uint64_t> tensors, std::vector<std::uint64_t> values = {},
                           std::uint32_t piece_bytes = 64) {
  return {key(), Generation{1}, piece_bytes, std::move(tensors), std::move(values)};
}
wire::StateEntry entry(std::string text) { return {key(), Generation{1}, std::move(text)}; }

Comparison of(wire::Outlined what) {
  return {key(), Generation{1}, what, {kAda, "a"}, {kBen, "b"}, {"they differ", ": ?", ": mend it"}};
}

// Both peers answer with their outlines; `words` describe the entries.
std::string text_of(wire::Outlined what, const wire::StateOutline& ours, const wire::StateOutline& theirs) {
  std::string texts[2];
  for (const bool b_first : {false, true}) {  // who answers first makes no difference
    Comparison comparison = of(what);
    EXPECT_EQ(comparison.begin().size(), 2U);
    EXPECT_EQ(comparison.take(b_first ? kBen : kAda, b_first ? theirs : ours)->size(), 0U);
    EXPECT_FALSE(comparison.over());
    const auto questions = comparison.take(b_first ? kAda : kBen, b_first ? ours : theirs);
    for (const auto& [to, question] : *questions) {
      EXPECT_FALSE(comparison.over());
      const auto& ask = std::get<wire::AskEntry>(question);
      EXPECT_TRUE(comparison.take(to, entry((to == kAda ? "ours " : "theirs ") + std::to_string(ask.index))));
    }
    EXPECT_TRUE(comparison.over());
    texts[b_first ? 1 : 0] = comparison.text();
  }
  EXPECT_EQ(texts[0], texts[1]);
  return texts[0];
}

TEST(Comparison, NamesTheFirstEntryThatDiffers) {
  const wire::StateOutline ours = outline({1, 2}, {3, 4});
  const struct {
    wire::StateOutline theirs;
    const char* of_manifests = nullptr;
    const char* of_contents = nullptr;
  } cases[] = {
      {outline({9, 8}, {3, 4}), ": tensor 0: a: ours 0; b: theirs 0", ": first in tensor 0 (ours 0)"},
      {outline({1, 9}, {3, 9}), ": tensor 1: a: ours 1; b: theirs 1", ": first in tensor 1 (ours 1)"},
      {outline({1, 2}, {3, 9}), ": value 1: a: ours 1; b: theirs 1", ": first in value 1 (ours 1)"},
      {outline({1}, {3, 4}), ": tensor 1: a: ours 1; b: none", ": first in tensor 1 (ours 1)"},
      {outline({1, 2, 3}, {4}), ": tensor 2: a: none; b: theirs 2", nullptr},
      {outline({1, 2}, {3}), ": value 1: a: ours 1; b: none", ": first in value 1 (ours 1)"},
      {outline({1, 2}, {3, 4}, 32), ": pieces: a: 64 bytes; b: 32 bytes", nullptr},
      {ours, ": ?", ": ?"},  // hashes that happen to be the same
  };
  for (const auto& [theirs, of_manifests, of_contents] : cases) {
    const std::string hint = of_manifests == std::string(": ?") ? "" : kHint;
    EXPECT_EQ(text_of(wire::Outlined::kManifest, ours, theirs), "they differ" + (of_manifests + hint) + ": mend it");
    if (of_contents == nullptr) continue;
    EXPECT_EQ(text_of(wire::Outlined::kContents, ours, theirs), std::string("they differ") + of_contents + ": mend it");
  }
}

// Found by a user: the error listed only the hashes of two layouts.
TEST(Comparison, NamesThePeerWhoseStateIsEmpty) {
  const std::string nothing = ": a: no tensors and no values; b: ";
  EXPECT_EQ(text_of(wire::Outlined::kManifest, outline({}), outline({1, 2}, {3})),
            "they differ: tensor 0" + nothing + "theirs 0" + kHint + ": mend it");
  EXPECT_EQ(text_of(wire::Outlined::kManifest, outline({}), outline({}, {3})),
            "they differ: value 0" + nothing + "theirs 0" + kHint + ": mend it");
}

TEST(Comparison, IgnoresAnswersThatItDidNotRequest) {
  Comparison comparison = of(wire::Outlined::kManifest);
  EXPECT_FALSE(comparison.take(kAda, outline({1})));
  (void)comparison.begin();
  EXPECT_FALSE(comparison.take(kCleo, outline({1})));
  EXPECT_FALSE(comparison.take(kAda, entry("w")));
  EXPECT_TRUE(comparison.take(kAda, outline({1})));
  EXPECT_FALSE(comparison.take(kAda, outline({1})));
  EXPECT_TRUE(comparison.take(kBen, outline({})));
  EXPECT_FALSE(comparison.take(kAda, outline({1})));
  EXPECT_FALSE(comparison.take(kBen, entry("w")));  // it has no such tensor
  EXPECT_TRUE(comparison.take(kAda, entry("w")));
  EXPECT_FALSE(comparison.take(kAda, entry("w")));
}

// ---- the coordinator's rounds ----

class ClaimsOfThree : public testing::Test {
 protected:
  ClaimsOfThree() {
    view_.number = ViewNumber{1};
    view_.cohort = CohortId{1};
    for (const PeerId peer : {kAda, kBen, kCleo}) {
      view_.members.push_back({peer, {}, {}, {}, std::string(1, static_cast<char>('a' + peer.low - 1))});
    }
    rounds_.admit(view_, {});
  }

  static wire::Claim claim(std::uint64_t layout, std::uint64_t tag = 7) {
    wire::Claim claim{key(tag), Generation{1}, {}, state::Strategy::kPopular, true, 4, {5, 5}, {}};
    claim.what.collective = wire::Collective::kSync;
    claim.what.layout = layout;
    return claim;
  }
  static wire::Claim sender(Digest root, std::uint64_t revision = 4) {
    wire::Claim sends = claim(1);
    sends.strategy = state::Strategy::kSendOnly;
    sends.root = root;
    sends.revision = revision;
    return sends;
  }
  // The second claim has another manifest.
  void differ(std::uint64_t tag = 7) {
    EXPECT_TRUE(rounds_.on_claim(kAda, claim(1, tag)).questions.empty());
    const auto result = rounds_.on_claim(kBen, claim(2, tag));
    EXPECT_FALSE(result.stop);
    ASSERT_EQ(result.questions.size(), 2U);
    EXPECT_EQ(std::get<wire::AskOutline>(result.questions[0].second).of, wire::Outlined::kManifest);
  }
  // Both peers answer all questions.
  std::optional<wire::Verdict> answer() {
    EXPECT_FALSE(rounds_.on_outline(kAda, outline({1})).stop);
    Rounds::DoneResult result = rounds_.on_outline(kBen, outline({2}));
    for (const auto& [peer, question] : std::exchange(result.questions, {})) {
      EXPECT_FALSE(result.stop);
      result = rounds_.on_entry(peer, entry(peer == kAda ? "w f32 [10]" : "w f32 [12]"));
    }
    return result.stop;
  }
  Rounds::Change loss_of(PeerId peer, wire::View& next) {
    Rounds::Change change;
    change.lost = {peer};
    next = view_;
    next.number = ViewNumber{2};
    std::erase_if(next.members, [&](const wire::Member& member) { return member.id == peer; });
    return change;
  }

  wire::View view_;
  Rounds rounds_;
};

TEST_F(ClaimsOfThree, ManifestsThatDifferEndWithTheFirstDifference) {
  differ();
  EXPECT_EQ(answer()->text, "states differ in tag 7: tensor 0: a: w f32 [10]; b: w f32 [12]" + kHint);
}

TEST_F(ClaimsOfThree, ElectsNoStateWhileTwoAreCompared) {
  differ();
  const auto result = rounds_.on_claim(kCleo, claim(1));
  EXPECT_FALSE(result.stop || !result.elected.empty());
  EXPECT_TRUE(result.committed.empty() && result.questions.empty());
  EXPECT_EQ(answer()->status, Status::kMismatch);
}

// Found by a user: the error spoke of different states although only the arguments differed.
TEST_F(ClaimsOfThree, ReportsDifferentArgumentsAsArguments) {
  wire::Claim other = claim(1);
  other.what.minimum_world = 3;
  EXPECT_FALSE(rounds_.on_claim(kAda, claim(1)).stop);
  const auto result = rounds_.on_claim(kBen, other);
  EXPECT_TRUE(result.questions.empty());
  ASSERT_TRUE(result.stop);
  EXPECT_EQ(result.stop->status, Status::kMismatch);
  EXPECT_EQ(
      result.stop->text,
      "arguments differ in sync_state with tag 7: minimum_world 1 on a, 3 on b: call it with the same arguments on all "
      "members");
}

TEST_F(ClaimsOfThree, ComparesDifferentStatesWhateverElseDiffers) {
  wire::Claim other = claim(2);
  other.what.minimum_world = 3;
  EXPECT_FALSE(rounds_.on_claim(kAda, claim(1)).stop);
  const auto result = rounds_.on_claim(kBen, other);
  EXPECT_FALSE(result.stop);
  EXPECT_EQ(result.questions.size(), 2U);
  EXPECT_EQ(answer()->text, "states differ in tag 7: tensor 0: a: w f32 [10]; b: w f32 [12]" + kHint);
}

TEST_F(ClaimsOfThree, ReportsTheFirstDifferenceBetweenSendOnlyStates) {
  EXPECT_FALSE(rounds_.on_claim(kAda, sender({1, 1})).stop);
  EXPECT_FALSE(rounds_.on_claim(kCleo, claim(1)).stop);
  const auto result = rounds_.on_claim(kBen, sender({2, 2}, 3));
  EXPECT_FALSE(result.stop);
  ASSERT_EQ(result.questions.size(), 2U);
  EXPECT_EQ(std::get<wire::AskOutline>(result.questions[0].second).of, wire::Outlined::kContents);
  EXPECT_EQ(
      answer()->text,
      "a and b only send, and their states differ in tag 7: first in tensor 0 (w f32 [10]): let one of them receive");
}

TEST_F(ClaimsOfThree, ReportsSendOnlyStatesOfTwoRevisionsAtOnce) {
  EXPECT_FALSE(rounds_.on_claim(kAda, sender({1, 1}, 4)).stop);
  EXPECT_FALSE(rounds_.on_claim(kBen, sender({1, 1}, 3)).stop);
  const auto result = rounds_.on_claim(kCleo, claim(1));
  EXPECT_TRUE(result.questions.empty());
  ASSERT_TRUE(result.stop);
  EXPECT_EQ(result.stop->text,
            "a and b only send, and their states differ in tag 7: revisions 4 and 3: let one of them receive");
}

TEST_F(ClaimsOfThree, OtherRoundsEndWithoutADetailWhileOneIsCompared) {
  differ();
  EXPECT_FALSE(rounds_.on_claim(kAda, claim(1, 8)).stop);
  const auto other = rounds_.on_claim(kBen, claim(2, 8));
  EXPECT_TRUE(other.questions.empty());
  ASSERT_TRUE(other.stop);
  EXPECT_EQ(other.stop->text,
            "states differ in tag 8: a: sync_state, 0 bytes in 0 tensors, layout 0000000000000001, retry; b: "
            "sync_state, 0 bytes in 0 tensors, layout 0000000000000002, retry" +
                kHint);
  EXPECT_EQ(answer()->status, Status::kMismatch);
  differ(9);  // there is room again
}

// Two bound groups. Found by an attack: the group with the smallest name was forgotten, and a newcomer's state won
// there.
TEST_F(ClaimsOfThree, ForgetsTheAgreementThatWasUnusedForTheLongestTime) {
  Claims claims;
  const std::vector<wire::Member> members(view_.members.begin(), view_.members.begin() + 2);
  claims.agreed(key(9), members);
  claims.agreed(key(1), members);
  for (std::uint64_t tag = 0; tag + 1 < kMaxStates; ++tag) claims.agreed(key(100 + tag), members);
  const auto revisions = [&](std::uint64_t tag) {
    for (const wire::Member& member : view_.members) {
      wire::Claim claimed = claim(1, tag);
      if (member.id == kCleo) claimed.revision = 1000;
      EXPECT_EQ(claims.add(view_.members, member.id, claimed).violation, "");
    }
    std::vector<std::uint64_t> found;
    for (const auto& [revision, roots] : *claims.votes(key(tag), Generation{1})) found.push_back(revision);
    return found;
  };
  EXPECT_EQ(revisions(1), std::vector<std::uint64_t>{4});
  EXPECT_EQ(revisions(9), (std::vector<std::uint64_t>{4, 1000})) << "forgotten: everybody votes";
}

// Seed 20099305: leavers ended a sync of their cohort after a founder had agreed with itself in a newer one. When the
// leavers were gone, everybody voted, and a newcomer's state won (rule 25).
TEST_F(ClaimsOfThree, ALateCommitOfAnOlderCohortIsNotTheLastAgreement) {
  const auto of_cohort = [&](std::uint64_t cohort) {
    RoundKey round = key(9);
    round.cohort = CohortId{cohort};
    return round;
  };
  for (std::size_t founder = 0; founder < view_.members.size(); ++founder) {
    std::vector<wire::Member> leavers = view_.members;
    leavers.erase(leavers.begin() + static_cast<std::ptrdiff_t>(founder));
    Claims claims;
    const std::set<PeerId> alone{view_.members[founder].id};
    claims.agreed(of_cohort(1), leavers);
    EXPECT_EQ(claims.agreed_peers(key(9)).size(), leavers.size());
    claims.agreed(of_cohort(2), {view_.members[founder]});
    EXPECT_EQ(claims.agreed_peers(key(9)), alone);
    claims.agreed(of_cohort(1), leavers);
    EXPECT_EQ(claims.agreed_peers(key(9)), alone);
    claims.agreed(of_cohort(2), view_.members);
    EXPECT_EQ(claims.agreed_peers(key(9)).size(), view_.members.size());
  }
}

class ClaimsInTwoGroups : public ClaimsOfThree {
 protected:
  static constexpr PeerId kDan{4, 4};

  ClaimsInTwoGroups() {
    view_.cohort = CohortId{2};
    view_.number = ViewNumber{2};
    view_.members = {{kAda, GroupId{0}, GangId{1}, {}, "a"},
                     {kBen, GroupId{0}, GangId{2}, {}, "b"},
                     {kCleo, GroupId{1}, GangId{1}, {}, "c"},
                     {kDan, GroupId{1}, GangId{2}, {}, "d"}};
    rounds_.admit(view_, {});
  }

  Rounds::DoneResult claims(PeerId peer, std::uint64_t layout, std::uint64_t revision = 4) {
    wire::Claim claimed = claim(layout);
    const std::uint32_t group = peer == kAda || peer == kBen ? 0 : 1;
    claimed.key = {CohortId{2}, GroupId{group}, Tag{7}, 0};
    claimed.attempt = Generation{2};
    claimed.revision = revision;
    return rounds_.on_claim(peer, claimed);
  }
};

// A difference in the other group does not end the round before the first group's difference is known.
TEST_F(ClaimsInTwoGroups, BoundRoundsWaitForTheOneComparison) {
  EXPECT_TRUE(claims(kAda, 1).questions.empty());
  EXPECT_EQ(claims(kBen, 2).questions.size(), 2U);
  EXPECT_TRUE(claims(kCleo, 1).questions.empty());
  const auto other = claims(kDan, 2);
  EXPECT_TRUE(other.questions.empty());
  EXPECT_FALSE(other.stop);
}

TEST_F(ClaimsInTwoGroups, NoStateIsTakenOverBeforeAllGroupsHaveElected) {
  claims(kAda, 1, 4);
  EXPECT_TRUE(claims(kBen, 1, 3).elected.empty());
  claims(kCleo, 1, 3);
  const auto result = claims(kDan, 1, 4);
  ASSERT_EQ(result.elected.size(), 2U);
  EXPECT_EQ(result.elected[0].state.receivers, (std::vector{kBen}));
  EXPECT_EQ(result.elected[1].state.receivers, (std::vector{kCleo}));
}

TEST_F(ClaimsInTwoGroups, EqualStatesOfBoundGroupsCommitTogether) {
  for (const PeerId peer : {kAda, kBen, kCleo}) EXPECT_TRUE(claims(peer, 1).committed.empty());
  EXPECT_EQ(claims(kDan, 1).committed.size(), 2U);
}

// Found by seed 14455: after a loss, the newcomer of one group had taken over a revision that the newcomer of the other
// group had not.
TEST_F(ClaimsInTwoGroups, ContinueWithTheHighestCommonRevision) {
  for (const PeerId peer : {kAda, kBen, kCleo}) claims(peer, 1, peer == kAda ? 4 : 3);
  const auto result = claims(kDan, 1, 3);
  EXPECT_FALSE(result.stop);
  ASSERT_EQ(result.elected.size(), 1U);
  EXPECT_EQ(result.elected[0].state.revision, 3U);
  EXPECT_EQ(result.elected[0].state.receivers, (std::vector{kAda}));
}

TEST_F(ClaimsInTwoGroups, EndWithoutACommonRevision) {
  for (const PeerId peer : {kAda, kBen}) EXPECT_FALSE(claims(peer, 1, 4).stop);
  EXPECT_FALSE(claims(kCleo, 1, 0).stop);
  const auto result = claims(kDan, 1, 3);
  EXPECT_TRUE(result.elected.empty() && result.committed.empty());
  ASSERT_TRUE(result.stop);
  EXPECT_EQ(result.stop->status, Status::kStateUndefined);
  EXPECT_EQ(result.stop->text,
            "groups that have gangs in common have no revision in common in tag 7 (group 0: 4; group 1: 3, 0): load a "
            "checkpoint in all of them");
}

TEST_F(ClaimsOfThree, ARequestedStopEndsTheRoundAndIgnoresLaterAnswers) {
  differ();
  EXPECT_TRUE(rounds_.on_stop(kCleo, {key(), Generation{1}, Status::kTimedOut, false, "timed out"}).violation.empty());
  EXPECT_FALSE(answer());
  const auto verdicts = rounds_.verdicts({}, view_);
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts.front().status, Status::kTimedOut);
}

TEST_F(ClaimsOfThree, TheNextAttemptIgnoresAnswersToTheOldOne) {
  differ();
  EXPECT_TRUE(rounds_.on_outline(kAda, outline({1})).violation.empty());
  wire::View next;
  const auto change = loss_of(kCleo, next);
  rounds_.install(change, next, {});
  EXPECT_TRUE(rounds_.on_outline(kBen, outline({2})).violation.empty());
  for (const PeerId peer : {kAda, kBen}) {
    wire::Claim again = claim(peer == kAda ? 1 : 2);
    again.attempt = Generation{2};
    EXPECT_EQ(rounds_.on_claim(peer, again).questions.size(), peer == kAda ? 0U : 2U);
  }
}

TEST_F(ClaimsOfThree, ARoundThatEndsFreesTheComparison) {
  differ();
  rounds_.install({}, view_, {{key(), Generation{1}, Status::kAborted, 0, ""}});
  EXPECT_TRUE(rounds_.on_outline(kAda, outline({1})).violation.empty());  // late
  differ(8);
}

TEST_F(ClaimsOfThree, UnrequestedAnswersAreViolations) {
  EXPECT_TRUE(rounds_.on_claim(kAda, claim(1)).violation.empty());
  EXPECT_FALSE(rounds_.on_outline(kAda, outline({1})).violation.empty());
  EXPECT_FALSE(rounds_.on_entry(kAda, entry("w")).violation.empty());
  EXPECT_EQ(rounds_.on_claim(kBen, claim(2)).questions.size(), 2U);
  EXPECT_FALSE(rounds_.on_outline(kCleo, outline({1})).violation.empty());
  EXPECT_FALSE(rounds_.on_entry(kAda, entry("w")).violation.empty());
  EXPECT_TRUE(rounds_.on_outline(kAda, outline({1})).violation.empty());
  EXPECT_FALSE(rounds_.on_outline(kAda, outline({1})).violation.empty());
}

}  // namespace
}  // namespace lockstep::coordinator
