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
  return {peer, strategy, true, revision, root};
}
Claim undefined(PeerId peer, Strategy strategy = Strategy::kPopular) { return {peer, strategy, false, 0, {}}; }

// Elects among claims of one group.
std::variant<Elected, Undecided> elect_among(const std::vector<Claim>& claims, const std::set<PeerId>& agreed) {
  const auto votes = votes_of(claims, agreed);
  if (const auto* undecided = std::get_if<Undecided>(&votes)) return *undecided;
  const auto* of_group = &std::get<Votes>(votes);
  return elect(claims, *of_group, highest_common({&of_group, 1}).value());
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

TEST(Election, PeersWithTheChosenRevisionVote) {
  const std::vector<Claim> claims = {claim(kA, 7, kBlue), claim(kB, 3, kRed), claim(kC, 900, kRed)};
  const auto votes = std::get<Votes>(votes_of(claims, {kA, kB}));
  const Elected elected = elect(claims, votes, 3);
  EXPECT_EQ(elected.root, kRed);
  EXPECT_EQ(elected.sources, std::vector{kB});
  EXPECT_EQ(elected.receivers, (std::vector{kA, kC}));
}

}  // namespace
}  // namespace lockstep::state
