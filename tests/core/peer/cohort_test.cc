#include "core/peer/cohort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/wire/limits.h"

namespace lockstep::peer {
namespace {

constexpr GroupId kOneGroup{};
constexpr PeerId kFirst{1, 1};
constexpr PeerId kSecond{2, 2};
constexpr PeerId kThird{3, 3};
constexpr PeerId kFourth{4, 4};
constexpr RoundKey kKeptRound{CohortId{1}, kOneGroup, Tag{7}, 0};

wire::View view_among(std::uint64_t number, const std::vector<PeerId>& peers) {
  wire::View view{{}, ViewNumber{number}, CohortId{1}, {}, {}};
  for (const PeerId peer : peers) view.members.push_back({peer, kOneGroup, {}, {}, {}});
  return view;
}

// The next view, and the changes that remove members.
wire::Propose change_to(std::uint64_t number, const std::vector<PeerId>& peers, const std::vector<PeerId>& lost,
                        const std::vector<PeerId>& left, const std::vector<RoundKey>& kept) {
  wire::Propose change;
  change.view = view_among(number, peers);
  change.lost = lost;
  change.left = left;
  change.kept = kept;
  return change;
}

// A member that is far from the coordinator is far from the other members, too.
TEST(Cohort, MembersAreAsFarFromEachOtherAsTheFarthestFromTheCoordinator) {
  wire::View view = view_among(1, {kFirst, kSecond, kThird});
  const auto distance = [&] { return Cohort::founded(view, kOneGroup).now().distance; };
  EXPECT_EQ(distance(), ring::Distance::kSameHost);
  view.members[2].address.bytes[3] += 1;
  EXPECT_EQ(distance(), ring::Distance::kNear);
  view.members[1].round_trip = milliseconds(1) - nanoseconds(1);
  EXPECT_EQ(distance(), ring::Distance::kNear);
  view.members[1].round_trip = milliseconds(1);
  EXPECT_EQ(distance(), ring::Distance::kFar);
  view.members[1].group = GroupId{1};
  EXPECT_EQ(distance(), ring::Distance::kNear) << "the far member is in another group";
}

TEST(Cohort, ManyMembersDoNotCommitAmongPeers) {
  std::vector<PeerId> peers;
  for (std::uint64_t n = 1; n <= kMaxPeerCommit + 1; ++n) peers.push_back({n, n});
  wire::View view = view_among(1, peers);
  EXPECT_FALSE(Cohort::founded(view, kOneGroup).now().peer_commit);
  view.members.pop_back();
  EXPECT_TRUE(Cohort::founded(view, kOneGroup).now().peer_commit);
}

// A view of so many members in one group, one of which is far from the coordinator.
wire::View far_view_of(std::uint64_t size) {
  std::vector<PeerId> peers;
  for (std::uint64_t n = 1; n <= size; ++n) peers.push_back({n, n});
  wire::View view = view_among(1, peers);
  view.members.back().round_trip = kFarCoordinator;
  return view;
}

// Rule 57.
TEST(Cohort, AFarGroupIsMeshedOrAGridIfItIsTooLargeForThat) {
  for (const std::uint64_t size : {std::uint64_t{2}, std::uint64_t{kMaxMeshed}, std::uint64_t{kMaxMeshed} + 1}) {
    SCOPED_TRACE(size);
    wire::View view = far_view_of(size);
    const auto reach = [&] { return Cohort::founded(view, kOneGroup).now().reach; };
    EXPECT_EQ(reach(), size <= kMaxMeshed ? ring::Reach::kAll : ring::Reach::kGrid);
    view.unmeshed = {kOneGroup};
    EXPECT_EQ(reach(), ring::Reach::kNeighbours) << "a link is marked";
    view.unmeshed = {};
    view.members.back().round_trip = kFarCoordinator - nanoseconds(1);
    EXPECT_EQ(reach(), ring::Reach::kNeighbours) << "all are near";
  }
}

TEST(Cohort, AGroupInWhichALinkIsMarkedIsNotMeshed) {
  wire::View view = far_view_of(6);
  for (std::size_t i = 3; i < 6; ++i) view.members[i].group = GroupId{1};
  view.members.front().round_trip = kFarCoordinator;
  const auto is_meshed = [&](GroupId group) { return Cohort::founded(view, group).now().reach == ring::Reach::kAll; };
  EXPECT_TRUE(is_meshed(kOneGroup));
  EXPECT_TRUE(is_meshed(GroupId{1}));
  view.unmeshed = {GroupId{1}};
  EXPECT_TRUE(is_meshed(kOneGroup));
  EXPECT_FALSE(is_meshed(GroupId{1}));
  view.unmeshed = {kOneGroup, GroupId{1}};
  EXPECT_FALSE(is_meshed(kOneGroup));
}

// Members of a meshed group have links to all others: a Done needs no way around the ring.
TEST(Cohort, AMeshedGroupCommitsAmongPeers) {
  wire::View view = far_view_of(kMaxMeshed);
  const auto commits = [&] { return Cohort::founded(view, kOneGroup).now().peer_commit; };
  EXPECT_TRUE(commits());
  view.unmeshed = {kOneGroup};
  EXPECT_FALSE(commits());
  view = far_view_of(kMaxMeshed + 1);
  EXPECT_FALSE(commits());
  view = far_view_of(kMaxPeerCommit);
  view.unmeshed = {kOneGroup};
  EXPECT_TRUE(commits()) << "so few members have links to all others in any case";
}

// Its gang holds them together: either all rounds commit, or none.
TEST(Cohort, AMeshedGroupThatIsBoundDoesNotCommitAmongPeers) {
  wire::View view = far_view_of(8);
  for (std::size_t i = 4; i < 8; ++i) view.members[i].group = GroupId{1};
  view.members[0].gang = view.members[4].gang = GangId{9};
  view.members[0].round_trip = kFarCoordinator;
  const auto roster = Cohort::founded(view, kOneGroup).now();
  EXPECT_EQ(roster.reach, ring::Reach::kAll);
  EXPECT_FALSE(roster.peer_commit);
}

// The next view decides for the attempts that begin in it.
TEST(Cohort, AMarkedLinkEndsTheMeshOfTheNextGeneration) {
  Cohort cohort = Cohort::founded(far_view_of(5), kOneGroup);
  EXPECT_EQ(cohort.now().reach, ring::Reach::kAll);
  wire::Propose change;
  change.view = far_view_of(5);
  change.view.number = ViewNumber{2};
  change.view.unmeshed = {kOneGroup};
  change.relinked = {kOneGroup};
  cohort.install(change);
  EXPECT_EQ(cohort.now().reach, ring::Reach::kNeighbours);
}

TEST(Cohort, LosingTheFarMemberBringsTheOthersNear) {
  wire::View view = view_among(1, {kFirst, kSecond, kThird});
  view.members[2].round_trip = seconds(1);
  Cohort cohort = Cohort::founded(view, kOneGroup);
  EXPECT_EQ(cohort.now().distance, ring::Distance::kFar);
  cohort.install(change_to(2, {kFirst, kSecond}, {kThird}, {}, {}));
  EXPECT_EQ(cohort.now().distance, ring::Distance::kSameHost);
}

TEST(Cohort, ARoundIsKeptInTheGenerationOfTheLeaver) {
  Cohort cohort = Cohort::founded(view_among(1, {kFirst, kSecond, kThird}), kOneGroup);
  cohort.install(change_to(2, {kFirst, kSecond}, {}, {kThird}, {kKeptRound}));
  EXPECT_EQ(cohort.current, Generation{2});
  EXPECT_EQ(cohort.attempt_of(kKeptRound), Generation{1});
  EXPECT_EQ(cohort.generations.at(Generation{1}).ring->size(), 3U);
}

TEST(Cohort, ASecondLeaverMovesNoKeptRound) {
  Cohort cohort = Cohort::founded(view_among(1, {kFirst, kSecond, kThird, kFourth}), kOneGroup);
  cohort.install(change_to(2, {kFirst, kSecond, kFourth}, {}, {kThird}, {kKeptRound}));
  cohort.install(change_to(3, {kFirst, kSecond}, {}, {kFourth}, {kKeptRound}));
  EXPECT_EQ(cohort.attempt_of(kKeptRound), Generation{1});
  EXPECT_EQ(cohort.generations.size(), 2U);
}

// The first leaver dies while the second leaver leaves: the round begins again among the remaining members and waits
// for no leaver.
TEST(Cohort, AKeptRoundThatLosesAMemberIsNotKeptForTheNextLeaver) {
  Cohort cohort = Cohort::founded(view_among(1, {kFirst, kSecond, kThird, kFourth}), kOneGroup);
  cohort.install(change_to(2, {kFirst, kSecond, kFourth}, {}, {kThird}, {kKeptRound}));
  cohort.install(change_to(3, {kFirst, kSecond}, {kThird}, {kFourth}, {kKeptRound}));
  EXPECT_EQ(cohort.attempt_of(kKeptRound), Generation{3});
  EXPECT_EQ(*cohort.now().ring, (std::vector<PeerId>{kFirst, kSecond}));
  EXPECT_EQ(cohort.generations.size(), 1U);
}

// Found by the simulator: the last view of a leaver has only newcomers of another group.
TEST(Cohort, ALeaverMaySeeACohortWithoutItsGroup) {
  const Cohort cohort = Cohort::founded(view_among(3, {kSecond}), GroupId{1});
  cohort.assert_invariants();
  EXPECT_TRUE(cohort.now().ring->empty());
}

// What a coordinator, and members that refuse calls in a loop, can make a peer remember.
TEST(Cohort, RememberedVerdictsAreFewAndTheirTextsShort) {
  Cohort cohort = Cohort::founded(view_among(1, {kFirst, kSecond}), kOneGroup);
  const auto key = [](std::uint32_t use) { return RoundKey{CohortId{1}, kOneGroup, Tag{7}, use}; };
  const auto remember = [&](std::uint32_t use) {
    cohort.remember({key(use), Generation{1}, Status::kInvalidArgument, 0, std::string(kMaxTextBytes, 'x')});
  };
  constexpr std::uint32_t kTexts = kMaxRememberedTextBytes / kMaxTextBytes;
  for (std::uint32_t use = 0; use < kTexts; ++use) remember(use);
  remember(0);  // it is there already
  EXPECT_EQ(cohort.early_text_bytes, kMaxRememberedTextBytes);
  EXPECT_EQ(cohort.take_remembered(key(kTexts - 1))->text.size(), kMaxTextBytes);
  remember(kTexts);
  remember(kTexts + 1);
  EXPECT_EQ(cohort.take_remembered(key(kTexts))->text.size(), kMaxTextBytes);
  EXPECT_EQ(cohort.take_remembered(key(kTexts + 1))->text, "");
  EXPECT_FALSE(cohort.take_remembered(key(kTexts + 1)));
  for (std::uint32_t use = kTexts; use < kTexts + kMaxRememberedOutcomes; ++use) remember(use);
  EXPECT_EQ(cohort.early_verdicts.size(), kMaxRememberedOutcomes);
  EXPECT_LE(cohort.early_text_bytes, kMaxRememberedTextBytes);
  EXPECT_FALSE(cohort.take_remembered(key(0)));
  cohort.forget_remembered();
  EXPECT_EQ(cohort.early_text_bytes, 0U);
}

}  // namespace
}  // namespace lockstep::peer
