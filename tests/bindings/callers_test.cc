// What `lockstep status` and `lockstep doctor` say of members that nobody can dial.
#include "bindings/cli/callers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace lockstep::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// In the order of the ring. `kinds`: "c" for a member that calls out, "o" for one that others can dial.
wire::View ring_of(const std::string& kinds, std::uint32_t group = 0) {
  wire::View view;
  for (const char kind : kinds) {
    const auto n = static_cast<std::uint8_t>(view.members.size() + 1);
    wire::Member member;
    member.id = PeerId{static_cast<std::uint64_t>(n) << 32U, 0};
    member.group = GroupId{group};
    member.name = std::string(1, static_cast<char>('a' + n - 1));
    member.calls_out = kind == 'c';
    member.address = {io::Address::Family::kV4, {10, 0, 0, n}, 4000};
    member.outside = {io::Address::Family::kV4, {10, 0, 0, n}, 0};
    view.members.push_back(member);
  }
  return view;
}

TEST(Callers, AreNamedWithTheAddressThatNobodyCanDial) {
  EXPECT_THAT(callers(ring_of("oco")),
              ElementsAre("b calls out: nobody can dial 10.0.0.2:4000, so it dials the others"));
  EXPECT_THAT(callers(ring_of("ooo")), IsEmpty());
}

TEST(Callers, MembersWithOneNameAreToldApart) {
  wire::View view = ring_of("ccc");
  view.members[0].name = view.members[1].name = "bench";
  view.members[2].name.clear();
  EXPECT_EQ(label_of(view, view.members[0]), "bench (00000001)");
  EXPECT_EQ(label_of(view, view.members[1]), "bench (00000002)");
  EXPECT_EQ(label_of(view, view.members[2]), "00000003");
}

TEST(Callers, NeighboursWithoutAWayAreNamedWithTheRemedy) {
  EXPECT_THAT(parted_neighbours(ring_of("occ")),
              ElementsAre("b and c are neighbours in the ring of group 0: nobody can dial either of them; forward the "
                          "port of one to it; a call that needs that link waits until one of the two is evicted"));
  EXPECT_THAT(parted_neighbours(ring_of("coc")), SizeIs(1)) << "the last one and the first one are neighbours";
  EXPECT_THAT(parted_neighbours(ring_of("ccc")), SizeIs(3));
  EXPECT_THAT(parted_neighbours(ring_of("cc")), SizeIs(1));
  EXPECT_THAT(parted_neighbours(ring_of("cocoo")), IsEmpty());
  EXPECT_THAT(parted_neighbours(ring_of("c")), IsEmpty());
  EXPECT_THAT(parted_neighbours(wire::View{}), IsEmpty());
}

TEST(Callers, NeighboursBehindOneRouterHaveAWay) {
  wire::View view = ring_of("ccc");
  for (wire::Member& member : view.members) member.outside = view.members.front().outside;
  EXPECT_THAT(parted_neighbours(view), IsEmpty());
}

TEST(Callers, EachGroupHasARingOfItsOwn) {
  wire::View view = ring_of("oc");
  const wire::View other = ring_of("co", 1);
  view.members.insert(view.members.end(), other.members.begin(), other.members.end());
  EXPECT_THAT(parted_neighbours(view), IsEmpty());
}

}  // namespace
}  // namespace lockstep::cli
