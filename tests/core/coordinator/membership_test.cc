#include "core/coordinator/membership.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "core/wire/reach.h"

namespace lockstep::coordinator {
namespace {

PeerId id(std::uint64_t n) { return {n, n}; }

Candidate candidate(std::uint64_t n, std::uint64_t gang = 0, std::uint32_t gang_size = 1) {
  Candidate made;
  made.member.id = id(n);
  made.member.gang = GangId{gang};
  made.member.name = "p" + std::to_string(n);
  made.gang_size = gang_size;
  made.arrival = n;
  return made;
}

// A run of n members, p1 to pn, in ring order.
Membership run_of(std::uint64_t n) {
  Membership membership;
  std::vector<Candidate> founders;
  for (std::uint64_t i = 1; i <= n; ++i) {
    founders.push_back(candidate(i));
    membership.add_candidate(founders.back());
  }
  wire::View view;
  view.number = ViewNumber{1};
  view.members = membership.next_members({}, founders);
  membership.install(view);
  return membership;
}

std::vector<std::uint64_t> ring_of(const std::vector<wire::Member>& members) {
  std::vector<std::uint64_t> ring;
  ring.reserve(members.size());
  for (const auto& member : members) ring.push_back(member.id.high);
  return ring;
}

// Rule 70. Members of a ring whose places in `callers` nobody can dial.
std::vector<Candidate> with_callers(std::uint64_t n, const std::set<std::uint64_t>& callers) {
  std::vector<Candidate> made;
  for (std::uint64_t i = 1; i <= n; ++i) {
    made.push_back(candidate(i));
    made.back().member.calls_out = callers.contains(i);
    made.back().member.outside = {io::Address::Family::kV4, {10, 0, 0, static_cast<std::uint8_t>(i)}, 0};
  }
  return made;
}

// Neighbours of which neither can dial the other.
std::size_t bad_pairs(const std::vector<wire::Member>& ring) {
  std::size_t bad = 0;
  for (std::size_t i = 0; i < ring.size(); ++i) bad += wire::can_link(ring[i], ring[(i + 1) % ring.size()]) ? 0 : 1;
  return bad;
}

TEST(Membership, ARingPartsMembersThatOnlyCallOut) {
  for (const std::uint64_t n : {4U, 5U, 6U, 7U, 16U, 64U}) {
    for (std::uint64_t callers = 2; callers <= n / 2; ++callers) {
      for (std::uint64_t first = 1; first <= n; first += 1 + n / 8) {
        std::set<std::uint64_t> places;
        for (std::uint64_t i = 0; i < callers; ++i) places.insert(1 + (first - 1 + i) % n);
        const auto ring = Membership().next_members({}, with_callers(n, places));
        EXPECT_EQ(bad_pairs(ring), 0U) << n << " members, " << callers << " that call out, from place " << first;
        EXPECT_EQ(Membership().unmeshed(ring).size(), 1U);
      }
    }
  }
}

TEST(Membership, ARingWithOneMemberThatCallsOutKeepsItsOrder) {
  for (std::uint64_t caller = 1; caller <= 5; ++caller) {
    const auto ring = Membership().next_members({}, with_callers(5, {caller}));
    EXPECT_EQ(ring_of(ring), (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
    EXPECT_TRUE(Membership().unmeshed(ring).empty()) << "it dials all others";
  }
}

TEST(Membership, MembersBehindOneRouterDialEachOther) {
  auto members = with_callers(4, {1, 2, 3, 4});
  for (Candidate& one : members) one.member.outside = members.front().member.outside;
  const auto ring = Membership().next_members({}, members);
  EXPECT_EQ(bad_pairs(ring), 0U);
  EXPECT_TRUE(Membership().unmeshed(ring).empty());
}

TEST(Membership, WithTooManyThatCallOutTheRingIsLaidAroundBrokenLinksAlone) {
  const auto members = with_callers(4, {1, 2, 3});
  Membership membership;
  for (const Candidate& one : members) membership.add_candidate(one);
  wire::View view;
  view.number = ViewNumber{1};
  view.members = membership.next_members({}, members);
  membership.install(view);
  EXPECT_GT(bad_pairs(view.members), 0U);
  membership.mark_broken(pair_of(id(1), id(4)), Instant{});
  const auto ring = ring_of(membership.next_members({}, {}));
  const auto at = [&](std::uint64_t n) { return std::ranges::find(ring, n) - ring.begin(); };
  EXPECT_EQ(std::abs(at(1) - at(4)) % 2, 0) << "opposite places of the ring";
}

// Rule 34.
TEST(Membership, AnEmptyRunWaitsForEnoughFounders) {
  Membership membership;
  for (std::uint64_t i = 1; i <= 2; ++i) {
    Candidate one = candidate(i);
    one.founders = 3;
    membership.add_candidate(one);
  }
  EXPECT_TRUE(membership.admissible().empty());
  membership.add_candidate(candidate(3));
  EXPECT_EQ(membership.admissible().size(), 3U);
}

// Rule 8.
TEST(Membership, AGangIsAdmittedWholeOrNotAtAll) {
  Membership membership = run_of(1);
  membership.add_candidate(candidate(7, 5, 2));
  EXPECT_TRUE(membership.admissible().empty());
  membership.add_candidate(candidate(8, 5, 2));
  EXPECT_EQ(membership.admissible().size(), 2U);
}

// Found by reading: a third peer with the gang's number kept the gang out forever, and a peer that claimed to be a gang
// of one took a whole gang with it when it left.
TEST(Membership, AGangRefusesPeersThatDoNotBelongToIt) {
  Membership membership = run_of(1);
  membership.add_candidate(candidate(7, 5, 2));
  membership.add_candidate(candidate(8, 5, 2));
  const auto third = membership.validate(candidate(9, 5, 2));
  ASSERT_TRUE(third.has_value());
  EXPECT_NE(third->text.find("gang 5 is whole already"), std::string::npos) << third->text;

  wire::View view = membership.view();
  view.members = membership.next_members({}, membership.admissible());
  membership.install(view);
  membership.add_candidate(candidate(9, 5));
  EXPECT_TRUE(membership.admissible().empty());  // until that gang is gone
  view.members = membership.next_members({id(7), id(8)}, {});
  membership.install(view);
  EXPECT_EQ(membership.admissible().size(), 1U);
}

TEST(Membership, NewcomersAreAdmittedInOrderOfArrival) {
  Membership membership = run_of(1);
  Candidate late = candidate(2);
  late.arrival = 20;
  Candidate early = candidate(9);
  early.arrival = 10;
  membership.add_candidate(late);
  membership.add_candidate(early);
  ASSERT_EQ(membership.admissible().size(), 2U);
  EXPECT_EQ(membership.admissible().front().member.id, id(9));
}

TEST(Membership, RefusesAnIdThatIsInUseAndNamesIt) {
  const Membership membership = run_of(2);
  const auto error = membership.validate(candidate(2));
  ASSERT_TRUE(error.has_value());
  EXPECT_NE(error->text.find("never reused"), std::string::npos);
}

// Rule 34.
TEST(Membership, RefusesAutoAdmitThatDiffersFromTheRun) {
  const Membership membership = run_of(2);
  Candidate other = candidate(3);
  other.auto_admit = true;
  const auto error = membership.validate(other);
  ASSERT_TRUE(error.has_value());
  EXPECT_NE(error->text.find("auto_admit"), std::string::npos);
}

TEST(Membership, TheRingAvoidsABrokenPair) {
  Membership membership = run_of(4);
  membership.mark_broken(pair_of(id(1), id(2)), Instant{1});
  const auto members = membership.next_members({}, {});
  EXPECT_TRUE(membership.unavoidable(members).empty());
  EXPECT_EQ(ring_of(members).size(), 4U);
}

TEST(Membership, ARingOfThreeCannotAvoidABrokenPair) {
  Membership membership = run_of(3);
  membership.mark_broken(pair_of(id(3), id(2)), Instant{1});
  ASSERT_EQ(membership.unavoidable(membership.next_members({}, {})).size(), 1U);
  EXPECT_EQ(membership.unavoidable(membership.next_members({}, {})).front(), pair_of(id(2), id(3)));
  EXPECT_TRUE(membership.unavoidable(membership.next_members({id(2)}, {})).empty());
}

void install_without(Membership& membership, std::uint64_t gone, bool left) {
  wire::View next;
  next.number.value = membership.view().number.value + 1;
  next.members = membership.next_members({id(gone)}, {});
  membership.install(next, left ? std::set{id(gone)} : std::set<PeerId>{});
}

TEST(Membership, ABrokenPairIsForgottenWithItsMembers) {
  Membership membership = run_of(4);
  membership.mark_broken(pair_of(id(1), id(2)), Instant{1});
  install_without(membership, 2, false);
  EXPECT_EQ(membership.broken_links_of(id(1), Instant{}), 0U);
  EXPECT_EQ(membership.ever_broken_links_of(id(1)), 0U);
}

// A lost peer may have been the faulty end. One that left proves nothing for the end that stays.
TEST(Membership, ALinkToAPeerThatLeftStillCounts) {
  for (const bool mended : {false, true}) {
    Membership membership = run_of(5);
    membership.mark_broken(pair_of(id(1), id(2)), Instant{1});
    membership.mark_broken(pair_of(id(1), id(3)), Instant{1}, true);  // only to avoid
    if (mended) membership.forget_broken(pair_of(id(1), id(2)));
    install_without(membership, 2, true);
    install_without(membership, 3, true);
    EXPECT_EQ(membership.broken_links_of(id(1), Instant{}), 0U);
    EXPECT_EQ(membership.ever_broken_links_of(id(1)), 1U);
    EXPECT_EQ(membership.ever_broken_links_of(id(4)), 0U);
    EXPECT_EQ(membership.broken_entries(), 1U);
    install_without(membership, 1, true);
    EXPECT_EQ(membership.broken_entries(), 0U);
  }
}

// However often it breaks.
TEST(Membership, ALinkThatMayWorkAgainStillCountsOnce) {
  Membership membership = run_of(4);
  const Pair pair = pair_of(id(1), id(2));
  for (std::int64_t i = 1; i <= 3; ++i) {
    membership.mark_broken(pair, Instant{i});
    EXPECT_EQ(membership.ever_broken_links_of(id(1)), 1U);
    membership.forget_broken(pair);
    EXPECT_FALSE(membership.is_marked(pair));
    EXPECT_EQ(membership.ever_broken_links_of(id(1)), 1U);
    EXPECT_EQ(membership.ever_broken_links_of(id(2)), 1U);
    EXPECT_EQ(membership.ever_broken_links_of(id(3)), 0U);
  }
}

// Known since the first report, and reported again by the last.
TEST(Membership, ABrokenPairCountsWhileItIsReported) {
  Membership membership = run_of(4);
  const Pair pair = pair_of(id(1), id(2));
  EXPECT_EQ(membership.mark_broken(pair, Instant{1}), Instant{1});
  EXPECT_FALSE(membership.said_since(pair, Instant{2}));
  EXPECT_EQ(membership.broken_links_of(id(1), Instant{2}), 0U);
  EXPECT_EQ(membership.mark_broken(pair, Instant{3}), Instant{1});
  EXPECT_TRUE(membership.said_since(pair, Instant{2}));
  EXPECT_EQ(membership.broken_links_of(id(2), Instant{2}), 1U);
  membership.forget_broken(pair);
  EXPECT_FALSE(membership.said_since(pair, Instant{}));
  EXPECT_EQ(membership.mark_broken(pair, Instant{5}), Instant{5});
}

// p1 to p3 in group 0, p4 to p6 in group 1, p7 and p8 in group 2.
Membership three_groups() {
  Membership membership;
  std::vector<Candidate> all;
  for (std::uint64_t i = 1; i <= 8; ++i) {
    all.push_back(candidate(i));
    all.back().member.group = GroupId{static_cast<std::uint32_t>((i - 1) / 3)};
    membership.add_candidate(all.back());
  }
  wire::View view;
  view.number = ViewNumber{1};
  view.members = membership.next_members({}, all);
  membership.install(view);
  return membership;
}

using GroupIds = std::vector<GroupId>;

TEST(Membership, AGroupWithABrokenPairIsNotMeshed) {
  Membership membership = three_groups();
  const auto unmeshed = [&] { return membership.unmeshed(membership.view().members); };
  EXPECT_EQ(unmeshed(), GroupIds{});
  membership.mark_broken(pair_of(id(8), id(7)), Instant{1});
  EXPECT_EQ(unmeshed(), GroupIds{GroupId{2}});
  membership.mark_broken(pair_of(id(1), id(3)), Instant{2});
  EXPECT_EQ(unmeshed(), (GroupIds{GroupId{0}, GroupId{2}})) << "in order";
  membership.mark_broken(pair_of(id(1), id(2)), Instant{3});
  EXPECT_EQ(unmeshed(), (GroupIds{GroupId{0}, GroupId{2}})) << "each once";
  membership.forget_broken(pair_of(id(7), id(8)));
  membership.forget_broken(pair_of(id(1), id(2)));
  EXPECT_EQ(unmeshed(), GroupIds{GroupId{0}}) << "another pair of the group is still marked";
  membership.forget_broken(pair_of(id(1), id(3)));
  EXPECT_EQ(unmeshed(), GroupIds{});
}

TEST(Membership, AGroupWithAPairToAvoidIsNotMeshed) {
  Membership membership = three_groups();
  membership.mark_broken(pair_of(id(5), id(6)), Instant{1}, true);
  EXPECT_EQ(membership.unmeshed(membership.view().members), GroupIds{GroupId{1}});
}

// Of the members that are named, which may be those of the next view.
TEST(Membership, AMarkedPairCountsWhileBothItsEndsAreMembers) {
  Membership membership = three_groups();
  membership.mark_broken(pair_of(id(4), id(6)), Instant{1});
  EXPECT_EQ(membership.unmeshed(membership.next_members({id(5)}, {})), GroupIds{GroupId{1}});
  EXPECT_EQ(membership.unmeshed(membership.next_members({id(4)}, {})), GroupIds{});
  EXPECT_EQ(membership.unmeshed(membership.next_members({id(6)}, {})), GroupIds{});
  EXPECT_EQ(membership.unmeshed({}), GroupIds{});
  install_without(membership, 6, false);
  EXPECT_EQ(membership.unmeshed(membership.view().members), GroupIds{});
}

TEST(Membership, GroupsHaveRingsOfTheirOwn) {
  Membership membership;
  std::vector<Candidate> all;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    all.push_back(candidate(i));
    all.back().member.group = GroupId{static_cast<std::uint32_t>(i % 2)};
  }
  EXPECT_EQ(ring_of(membership.next_members({}, all)), (std::vector<std::uint64_t>{2, 4, 1, 3}));
}

}  // namespace
}  // namespace lockstep::coordinator
