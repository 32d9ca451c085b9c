#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "sim/checkers/s6_membership.h"
#include "tests/sim/checkers/calls.h"

namespace lockstep::sim {
namespace {

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
  OneMembership checker;
  EXPECT_FALSE(checker.installed(kA, view(1, {{kA, 0}, {kB, 0}})));
  EXPECT_FALSE(checker.installed(kB, view(1, {{kA, 0}, {kB, 0}})));
  EXPECT_FALSE(checker.installed(kA, view(3, {{kA, 0}})));
}

TEST(S6Membership, TwoViewsOfOneNumberFail) {
  OneMembership checker;
  EXPECT_FALSE(checker.installed(kA, view(1, {{kA, 0}, {kB, 0}})));
  EXPECT_TRUE(checker.installed(kB, view(1, {{kB, 0}, {kA, 0}})));
}

TEST(S6Membership, GoingBackDoublesStrangersAndDisorderFail) {
  OneMembership checker;
  EXPECT_FALSE(checker.installed(kA, view(2, {{kA, 0}})));
  EXPECT_TRUE(checker.installed(kA, view(1, {{kA, 0}})));
  EXPECT_TRUE(OneMembership().installed(kA, view(1, {{kA, 0}, {kA, 0}})));
  EXPECT_TRUE(OneMembership().installed(kC, view(1, {{kA, 0}, {kB, 0}})));
  EXPECT_TRUE(OneMembership().installed(kA, view(1, {{kB, 1}, {kA, 0}})));
}

TEST(S6Membership, HalfAGangFails) {
  const auto gang = [](const std::vector<PeerId>& ids) {
    auto made = std::make_shared<wire::View>();
    made->number = ViewNumber{1};
    made->cohort = CohortId{1};
    for (const PeerId id : ids)
      made->members.push_back({.id = id, .group = {}, .gang = GangId{7}, .address = {}, .name = {}});
    return made;
  };
  EXPECT_FALSE(OneMembership(2).installed(kA, gang({kA, kB})));
  EXPECT_TRUE(OneMembership(2).installed(kA, gang({kA})));
}

TEST(S6Membership, ARoundOutsideItsRingFails) {
  OneMembership checker;
  EXPECT_FALSE(checker.installed(kA, view(1, {{kA, 0}, {kB, 0}, {kC, 1}})));
  const auto round = [](std::vector<PeerId> ring) {
    Call call = ended_call(kA, committed(std::move(ring)));
    call.outcome->attempt = Generation{1};
    return call;
  };
  EXPECT_FALSE(checker.ended(round({kA, kB})));
  EXPECT_TRUE(checker.ended(round({kB, kA})));
  EXPECT_TRUE(checker.ended(round({kA})));
  EXPECT_TRUE(checker.ended(round({kA, kB, kC})));
  EXPECT_TRUE(checker.ended(ended_call(kA, committed({kA, kB}))));  // of an attempt that no view began
}

}  // namespace
}  // namespace lockstep::sim
