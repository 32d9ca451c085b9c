// The slice of artificial histories: near causes are included, distant ones are not.
#include "sim/explain/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

History history(const std::vector<std::vector<Cause>>& causes) {
  History made;
  for (const auto& each : causes) made.moments.emplace_back().causes = each;
  return made;
}

TEST(Slice, HoldsTheAncestorsInTheOrderInWhichTheyHappened) {
  const History made =
      history({{}, {}, {{0, Because::kMessage}}, {}, {{2, Because::kState}, {1, Because::kKernel}}, {}});
  EXPECT_THAT(causal_slice(made, 4), ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(causal_slice(made, 3), ElementsAre(3));
  EXPECT_THAT(causal_slice(made, 6), IsEmpty());
}

TEST(Slice, EndsWhereThingsAreFarAway) {
  std::vector<std::vector<Cause>> chain(100);
  for (MomentId id = 1; id < chain.size(); ++id) chain[id] = {{id - 1, Because::kMessage}};
  EXPECT_THAT(causal_slice(history(chain), 99), SizeIs(kSliceRadius + 1));
  for (MomentId id = 1; id < chain.size(); ++id) chain[id] = {{id - 1, Because::kView}};
  EXPECT_THAT(causal_slice(history(chain), 99), ElementsAre(98, 99));
}

TEST(Slice, AFaultIsNeverFarAway) {
  std::vector<std::vector<Cause>> chain(10);
  for (MomentId id = 2; id < chain.size(); ++id) chain[id] = {{id - 1, Because::kMessage}};
  chain[kSliceRadius + 1].push_back({0, Because::kFault});
  EXPECT_THAT(causal_slice(history(chain), 9), testing::Contains(0U));
}

TEST(Slice, WhenThereIsMoreThanIsWantedTheNearestAreTold) {
  const History made = history({{}, {{0, Because::kStream}}, {{1, Because::kMessage}, {0, Because::kTimer}}});
  EXPECT_THAT(causal_slice(made, 2, 2), ElementsAre(1, 2));
}

}  // namespace
}  // namespace lockstep::sim
