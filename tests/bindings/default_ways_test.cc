#include "bindings/cli/default_ways.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// `sizes`: members of groups 0, 1, and so on; one of them is so far from the coordinator.
wire::View view_of(const std::vector<std::uint32_t>& sizes, Duration farthest) {
  wire::View view;
  view.number = ViewNumber{1};
  view.cohort = CohortId{1};
  std::uint64_t id = 0;
  for (std::uint32_t group = 0; group < sizes.size(); ++group) {
    for (std::uint32_t i = 0; i < sizes[group]; ++i) {
      wire::Member member;
      member.id = PeerId{0, ++id};
      member.group = GroupId{group};
      member.round_trip = i == 0 ? farthest : microseconds(100);
      view.members.push_back(member);
    }
  }
  return view;
}

std::string only_text(const wire::View& view) {
  const std::vector<DefaultWay> ways = default_ways(view);
  return ways.size() == 1 ? ways.front().text() : std::to_string(ways.size()) + " ways";
}

TEST(DefaultWays, FollowFromTheViewAsRule57Says) {
  EXPECT_EQ(only_text(view_of({4}, microseconds(999))),
            "all-reduces of group 0 go around the ring: 4 members, all are less than 1 ms from the coordinator");
  EXPECT_EQ(only_text(view_of({64}, milliseconds(80))),
            "all-reduces of group 0 go direct: 64 members, up to 80.0 ms from the coordinator, with links between all "
            "pairs");
  EXPECT_EQ(only_text(view_of({65}, milliseconds(80))),
            "all-reduces of group 0 go in a grid: 65 members, up to 80.0 ms from the coordinator, more than 64, with "
            "links along rows and columns");
  wire::View broken = view_of({8}, milliseconds(2));
  broken.unmeshed = {GroupId{0}};
  EXPECT_THAT(only_text(broken), HasSubstr("go around the ring: 8 members, up to 2.0 ms from the coordinator, and a "
                                           "link between two of them does not work"));
  const std::vector<std::string> why = {"a link between two of them does not work, or is slow: see the troubles",
                                        "nobody can dial either of two of them, so there is no link between the two",
                                        "3 pairs of them have no link: nobody can dial either of the two"};
  for (std::size_t i = 0; i < why.size(); ++i) {
    broken.members[i].outside = {io::Address::Family::kV4, {10, 0, 0, static_cast<std::uint8_t>(i)}, 0};
    broken.members[i].calls_out = true;
    EXPECT_THAT(only_text(broken), HasSubstr(why[i])) << i + 1 << " call out";
  }
  EXPECT_TRUE(default_ways(view_of({1}, milliseconds(80))).empty()) << "nothing goes anywhere";
  EXPECT_TRUE(default_ways(wire::View{}).empty());
}

TEST(DefaultWays, EachGroupHasItsOwn) {
  wire::View view = view_of({2, 70, 3}, milliseconds(2));
  view.unmeshed = {GroupId{2}};
  std::vector<std::string> algorithms;
  for (const DefaultWay& way : default_ways(view)) algorithms.push_back(way.algorithm);
  EXPECT_THAT(algorithms, ElementsAre("direct", "grid", "ring"));
}

TEST(DefaultWays, AreJsonForPrograms) {
  const nlohmann::json j = default_ways(view_of({8}, milliseconds(80))).front().json();
  EXPECT_EQ(j.at("group"), 0);
  EXPECT_EQ(j.at("members"), 8);
  EXPECT_EQ(j.at("all_reduce"), "direct");
  EXPECT_EQ(j.at("farthest_round_trip_seconds"), 0.08);
  EXPECT_THAT(j.at("why").get<std::string>(), HasSubstr("links between all pairs"));
}

}  // namespace
}  // namespace lockstep::cli
