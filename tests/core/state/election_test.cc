#include "core/state/election.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::state {
namespace {

constexpr PeerId kA{0, 1};
constexpr PeerId kB{0, 2};
constexpr PeerId kC{0, 3};
constexpr PeerId kD{0, 4};
constexpr Digest kRed{1, 0};
constexpr Digest kBlue{2, 0};

Claim claim(PeerId peer, std::uint64_t revision, Digest root, Strategy strategy = Strategy::kPopular) {
  return {peer, strategy, true, revision, root, {}};
}
Claim undefined(PeerId peer, Strategy strategy = Strategy::kPopular) { return {peer, strategy, false, 0, {}, {}}; }
Claim grown(PeerId peer, std::uint64_t revision, Digest root, std::uint64_t lineage) {
  return {peer, Strategy::kPopular, true, revision, root, Lineage{lineage}};
}

// Elects among claims of one group.
std::variant<Elected, Undecided> elect_among(const std::vector<Claim>& claims, const std::set<PeerId>& agreed) {
  const auto votes = votes_of(claims, agreed);
  if (const auto* undecided = std::get_if<Undecided>(&votes)) return *undecided;
  const auto* of_group = &std::get<Votes>(votes);
  return elect(claims, *of_group, highest_common({&of_group, 1}).value(), agreed);
}

// Expects this winner and these receivers.
void expect_won(const std::vector<Claim>& claims, const std::set<PeerId>& agreed, std::uint64_t revision, Digest root,
                const std::vector<PeerId>& receivers) {
  const auto result = elect_among(claims, agreed);
  ASSERT_TRUE(std::holds_alternative<Elected>(result));
  const auto& elected = std::get<Elected>(result);
  EXPECT_EQ(elected.revision, revision);
  EXPECT_EQ(elected.root, root);
  EXPECT_EQ(elected.receivers, receivers);
}
void expect_undecided(const std::vector<Claim>& claims, Undecided::Why why, PeerId a = {}, PeerId b = {}) {
  const auto result = elect_among(claims, {});
  ASSERT_TRUE(std::holds_alternative<Undecided>(result));
  EXPECT_EQ(std::get<Undecided>(result).why, why);
  EXPECT_EQ(std::get<Undecided>(result).a, a);
  EXPECT_EQ(std::get<Undecided>(result).b, b);
}

TEST(Election, EqualStatesNeedNoTransfer) {
  expect_won({claim(kA, 7, kRed), claim(kB, 7, kRed)}, {kA, kB}, 7, kRed, {});
}

TEST(Election, AtTheFoundingTheHighestRevisionWins) {
  expect_won({claim(kA, 7, kRed), claim(kB, 9, kBlue), claim(kC, 7, kRed)}, {}, 9, kBlue, {kA, kC});
}

TEST(Election, OfOneRevisionTheMostPopularRootWins) {
  expect_won({claim(kA, 7, kBlue), claim(kB, 7, kRed), claim(kC, 7, kBlue)}, {kA, kB, kC}, 7, kBlue, {kB});
}

TEST(Election, EquallyPopularRootsAreDecidedByTheSmallestRoot) {
  std::vector<Claim> claims = {claim(kA, 7, kBlue), claim(kB, 7, kRed)};
  expect_won(claims, {}, 7, kRed, {kA});
  std::swap(claims[0], claims[1]);
  expect_won(claims, {}, 7, kRed, {kA});
}

// The newcomer was away for a long time, or comes from another run.
TEST(Election, ANewcomerWithAHigherRevisionOnlyReceives) {
  expect_won({claim(kA, 7, kRed), claim(kB, 7, kRed), claim(kC, 900, kBlue), claim(kD, 900, kBlue)}, {kA, kB}, 7, kRed,
             {kC, kD});
}

// ---- progress that the run does not have (rule 53) ----

TEST(Election, NewcomersWithAHigherRevisionAreAhead) {
  const std::vector<Claim> claims = {claim(kA, 7, kRed), claim(kB, 9, kBlue), claim(kC, 7, kRed), claim(kD, 8, kBlue)};
  EXPECT_EQ(ahead_of(7, claims, {kA, kC}), (std::vector{kB, kD}));
  EXPECT_EQ(ahead_of(8, claims, {kA, kC}), std::vector{kB});
  EXPECT_TRUE(ahead_of(9, claims, {kA, kC}).empty());
}

TEST(Election, NobodyIsAheadOfTheFounders) {
  EXPECT_TRUE(ahead_of(7, {claim(kA, 7, kRed), claim(kB, 9, kBlue)}, {}).empty());
  // the members that agreed have no state any more
  EXPECT_TRUE(ahead_of(7, {undefined(kA), claim(kB, 9, kBlue), claim(kC, 7, kRed)}, {kA}).empty());
}

TEST(Election, MembersThatGoBackAreNotAhead) {
  EXPECT_TRUE(ahead_of(7, {claim(kA, 7, kRed), claim(kB, 9, kBlue)}, {kA, kB}).empty());
}

TEST(Election, NobodyIsAheadWhoLetsItsStateGo) {
  EXPECT_TRUE(ahead_of(7, {claim(kA, 7, kRed), claim(kB, 9, kBlue, Strategy::kReceiveOnly)}, {kA}).empty());
  EXPECT_TRUE(ahead_of(7, {claim(kA, 7, kRed), undefined(kB)}, {kA}).empty());
  EXPECT_TRUE(ahead_of(7, {claim(kA, 7, kRed, Strategy::kSendOnly), claim(kB, 9, kBlue)}, {kA}).empty());
}

TEST(Election, ANewcomerWinsWithTheStrategyNewestIfItIsAhead) {
  const auto newest = [](PeerId peer, std::uint64_t revision) {
    return claim(peer, revision, kBlue, Strategy::kNewest);
  };
  expect_won({claim(kA, 7, kRed), claim(kB, 7, kRed), newest(kC, 8)}, {kA, kB}, 8, kBlue, {kA, kB});
  expect_won({claim(kA, 7, kRed), newest(kB, 9), newest(kC, 8)}, {kA}, 9, kBlue, {kA, kC});
  expect_won({claim(kA, 7, kRed), newest(kB, 7), newest(kC, 7)}, {kA}, 7, kRed, {kB, kC});  // not by their number
  expect_won({claim(kA, 7, kRed), newest(kB, 6)}, {kA}, 7, kRed, {kB});
  EXPECT_EQ(ahead_of(7, {claim(kA, 7, kRed), newest(kB, 9)}, {kA}), std::vector{kB});  // shards have no common revision
}

TEST(Election, AStateKeepsItsLineageAndBeginsOneIfItHasNone) {
  const auto lineage_of_winner = [](const std::vector<Claim>& claims) {
    return std::get<Elected>(elect_among(claims, {})).lineage;
  };
  const Digest root{3, 5};
  const Lineage fresh = lineage_of_winner({claim(kA, 7, root), claim(kB, 6, kBlue)});
  EXPECT_EQ(fresh, lineage_of({}, root));
  EXPECT_NE(fresh, Lineage{});
  EXPECT_NE(lineage_of({}, Digest{3, 0}), Lineage{});
  EXPECT_EQ(lineage_of_winner({grown(kA, 7, root, 4), grown(kB, 9, kBlue, 8)}), Lineage{8});
  EXPECT_EQ(lineage_of_winner({grown(kA, 7, root, 4), claim(kB, 7, root)}), Lineage{4});
  EXPECT_EQ(lineage_of_winner({grown(kA, 7, root, 4), grown(kB, 7, root, 3)}), Lineage{3});
  EXPECT_EQ(lineage_of_winner({grown(kA, 7, root, 4), grown(kB, 7, root, 3), grown(kC, 7, root, 4)}), Lineage{4});
}

// A newcomer does not change the lineage of the run, however small its own.
TEST(Election, TheLineageIsThatOfMembersOfTheLastAgreement) {
  const Digest root{3, 5};
  const auto result = elect_among({grown(kA, 7, root, 4), grown(kB, 7, root, 3), grown(kC, 7, root, 3)}, {kA});
  EXPECT_EQ(std::get<Elected>(result).lineage, Lineage{4});
  EXPECT_TRUE(std::get<Elected>(result).receivers.empty());  // they have the state, and are told its lineage
}

TEST(Election, ACheckpointThatAllMembersLoadedWins) {
  expect_won({claim(kA, 5, kRed), claim(kB, 5, kRed), claim(kC, 7, kBlue)}, {kA, kB}, 5, kRed, {kC});
}

TEST(Election, TheMemberThatDidNotGoBackToACheckpointWins) {
  expect_won({claim(kA, 5, kRed), claim(kB, 7, kBlue), claim(kC, 5, kRed)}, {kA, kB, kC}, 7, kBlue, {kA, kC});
}

TEST(Election, WithoutMembersOfTheLastAgreementEverybodyVotes) {
  expect_won({claim(kC, 3, kRed), claim(kD, 4, kBlue)}, {kA, kB}, 4, kBlue, {kC});
  expect_won({undefined(kA), claim(kD, 4, kBlue)}, {kA}, 4, kBlue, {kA});
}

TEST(Election, ASendOnlyStateWins) {
  expect_won({claim(kA, 7, kRed), claim(kB, 7, kRed), claim(kC, 1, kBlue, Strategy::kSendOnly)}, {kA, kB}, 1, kBlue,
             {kA, kB});
}

TEST(Election, NamesTwoDifferentSendOnlyStates) {
  const Strategy only = Strategy::kSendOnly;
  expect_undecided({claim(kA, 7, kRed, only), claim(kB, 7, kRed), claim(kC, 7, kBlue, only)},
                   Undecided::Why::kSendersDisagree, kA, kC);
}

TEST(Election, ASendOnlyPeerWithoutAStateEndsTheRound) {
  expect_undecided({undefined(kA, Strategy::kSendOnly), claim(kB, 7, kRed)}, Undecided::Why::kNobodySends, kA);
}

TEST(Election, ReceiveOnlyNeitherVotesNorSends) {
  const Strategy only = Strategy::kReceiveOnly;
  const auto result = elect_among({claim(kA, 9, kBlue, only), claim(kB, 7, kRed), claim(kC, 7, kRed, only)}, {});
  ASSERT_TRUE(std::holds_alternative<Elected>(result));
  EXPECT_EQ(std::get<Elected>(result).root, kRed);
  EXPECT_EQ(std::get<Elected>(result).sources, std::vector{kB});
  EXPECT_EQ(std::get<Elected>(result).receivers, std::vector{kA});
}

TEST(Election, WithoutAnyStateNothingIsElected) {
  expect_undecided({}, Undecided::Why::kNobodySends);
  expect_undecided({undefined(kA)}, Undecided::Why::kNobodySends);
  expect_undecided({claim(kA, 7, kRed, Strategy::kReceiveOnly)}, Undecided::Why::kNobodySends);
}

TEST(Election, BoundGroupsContinueWithTheHighestCommonRevision) {
  const auto common = [](const std::vector<Votes>& groups) {
    std::vector<const Votes*> all;
    all.reserve(groups.size());
    for (const Votes& votes : groups) all.push_back(&votes);
    return highest_common(all);
  };
  const auto votes = [](const std::set<std::uint64_t>& revisions) {
    Votes cast;
    for (const std::uint64_t revision : revisions) cast[revision] = {{kRed, 1}};
    return cast;
  };
  EXPECT_EQ(common({votes({3, 7})}), 7U);
  EXPECT_EQ(common({votes({3, 7}), votes({3, 7})}), 7U);
  EXPECT_EQ(common({votes({3, 7}), votes({1, 3})}), 3U);
  EXPECT_EQ(common({votes({3, 7}), votes({3, 8}), votes({7, 8})}), std::nullopt);
}

// ---- members that strayed (rule 55) ----

std::vector<PeerId> strayed_among(const std::vector<Claim>& claims, const std::set<PeerId>& agreed) {
  return strayed(std::get<Elected>(elect_among(claims, agreed)), claims, agreed);
}

TEST(Strayed, OnlyVotersOfTheLastAgreementStray) {
  const std::vector<Claim> claims = {claim(kA, 7, kRed), claim(kB, 7, kBlue), claim(kC, 7, kRed), claim(kD, 3, kBlue)};
  EXPECT_EQ(strayed_among(claims, {kA, kB, kC}), std::vector{kB});
  EXPECT_EQ(strayed_among(claims, {kA, kB, kC, kD}), (std::vector{kB, kD}));
  EXPECT_EQ(strayed_among(claims, {kA}), std::vector<PeerId>{});
  EXPECT_EQ(strayed_among(claims, {}), std::vector<PeerId>{}) << "at the founding nobody strays";
}

TEST(Strayed, AMemberWithoutAVoteDoesNotStray) {
  const auto with = [](const Claim& other) {
    return strayed_among({claim(kA, 7, kRed), claim(kC, 7, kRed), other}, {kA, kB, kC});
  };
  EXPECT_EQ(with(claim(kB, 7, kBlue)), std::vector{kB});
  EXPECT_EQ(with(claim(kB, 7, kBlue, Strategy::kNewest)), std::vector{kB});
  EXPECT_EQ(with(claim(kB, 7, kBlue, Strategy::kReceiveOnly)), std::vector<PeerId>{});
  EXPECT_EQ(with(undefined(kB)), std::vector<PeerId>{});
}

TEST(Strayed, NobodyDoesWhereTheCallersHaveChosen) {
  const std::vector<Claim> sent = {claim(kA, 7, kRed), claim(kB, 7, kRed), claim(kC, 7, kBlue, Strategy::kSendOnly)};
  EXPECT_EQ(strayed_among(sent, {kA, kB, kC}), std::vector<PeerId>{});
  const std::vector<Claim> newest = {claim(kA, 7, kRed), claim(kB, 7, kRed), claim(kC, 9, kBlue, Strategy::kNewest)};
  EXPECT_EQ(strayed_among(newest, {kA, kB}), std::vector<PeerId>{}) << "the newcomer wins, and all take it over";
}

// Bound groups may go on with a lower revision than some members have.
TEST(Strayed, AMemberThatIsAheadDoesNotStray) {
  const std::vector<Claim> claims = {claim(kA, 3, kRed), claim(kB, 4, kBlue), claim(kC, 2, kBlue)};
  EXPECT_EQ(strayed({3, kRed, {}, {}, {}}, claims, {kA, kB, kC}), std::vector{kC});
}

TEST(Election, PeersWithTheChosenRevisionVote) {
  const std::vector<Claim> claims = {claim(kA, 7, kBlue), claim(kB, 3, kRed), claim(kC, 900, kRed)};
  const auto votes = std::get<Votes>(votes_of(claims, {kA, kB}));
  const Elected elected = elect(claims, votes, 3, {});
  EXPECT_EQ(elected.root, kRed);
  EXPECT_EQ(elected.sources, std::vector{kB});
  EXPECT_EQ(elected.receivers, (std::vector{kA, kC}));
}

}  // namespace
}  // namespace lockstep::state
