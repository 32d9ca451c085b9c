#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "sim/checkers/s1_one_outcome.h"
#include "tests/sim/checkers/calls.h"

namespace lockstep::sim {
namespace {

TEST(S1OneOutcome, AgreeingPeersPass) {
  OneOutcome checker;
  EXPECT_FALSE(checker.ended(ended_call(kA, committed({kA, kB}))));
  EXPECT_FALSE(checker.ended(ended_call(kB, committed({kA, kB}))));
  EXPECT_FALSE(checker.ended(ended_call(kC, aborted(Status::kOutcomeUnknown))));
}

TEST(S1OneOutcome, CommittedForOneAndAbortedForAnotherFails) {
  OneOutcome checker;
  EXPECT_FALSE(checker.ended(ended_call(kA, committed({kA, kB}))));
  EXPECT_TRUE(checker.ended(ended_call(kB, aborted(Status::kPeerLost))));
}

TEST(S1OneOutcome, AbortsForDifferentReasonsPass) {
  OneOutcome checker;
  EXPECT_FALSE(checker.ended(ended_call(kA, aborted(Status::kTimedOut))));
  EXPECT_FALSE(checker.ended(ended_call(kB, aborted(Status::kAborted))));
}

TEST(S1OneOutcome, ReceiptsThatDifferFail) {
  for (int field = 0; field < 4; ++field) {
    OneOutcome checker;
    EXPECT_FALSE(checker.ended(ended_call(kA, committed({kA, kB}))));
    peer::Outcome other = committed({kA, kB});
    if (field == 0) other.hash = 98;
    if (field == 1) other.attempt = Generation{1};
    if (field == 2) other.world = 3;
    if (field == 3) other.contributors = std::make_shared<const std::vector<PeerId>>(std::vector{kB, kA});
    EXPECT_TRUE(checker.ended(ended_call(kB, other))) << field;
  }
}

TEST(S1OneOutcome, GroupsThatShareAGangHaveOneOutcome) {
  wire::View cohort;
  const auto add = [&](std::uint64_t id, std::uint32_t group, std::uint64_t gang) {
    cohort.members.push_back({{id, id}, GroupId{group}, GangId{gang}, {}, {}});
  };
  const auto outcome_in_two = [&](const wire::View* view) {
    peer::Outcome other = aborted(Status::kPeerLost);
    other.round.group = GroupId{2};
    OneOutcome checker;
    EXPECT_FALSE(checker.ended(ended_call(kA, committed({kA, kB})), view));
    return checker.ended(ended_call(kC, other), view);
  };
  EXPECT_FALSE(outcome_in_two(nullptr));
  add(1, 0, 7);
  add(2, 1, 7);
  add(3, 1, 8);
  add(4, 2, 9);
  EXPECT_FALSE(outcome_in_two(&cohort));
  add(5, 2, 8);  // bound through group 1
  EXPECT_TRUE(outcome_in_two(&cohort));
}

}  // namespace
}  // namespace lockstep::sim
