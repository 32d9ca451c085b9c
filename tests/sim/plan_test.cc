// A seed gives one plan, and a plan survives its file.
#include "sim/plan.h"

#include <gtest/gtest.h>

#include "sim/plan_file.h"

namespace lockstep::sim {
namespace {

TEST(Plan, ASeedGivesOnePlanAndSeedsDiffer) {
  EXPECT_EQ(to_text(plan_of(7)), to_text(plan_of(7)));
  EXPECT_NE(to_text(plan_of(7)), to_text(plan_of(8)));
}

TEST(Plan, EveryKindOfFaultIsDrawn) {
  std::vector<int> seen(kFaultCount);
  std::vector<int> by_launch(2);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    for (const Entry& entry : plan_of(seed).entries) {
      seen[static_cast<std::size_t>(entry.fault)] += 1;
      by_launch[entry.launch > 0 ? 1 : 0] += 1;
    }
  }
  for (std::uint8_t f = 0; f < kFaultCount; ++f) EXPECT_GT(seen[f], 20) << name_of(static_cast<Fault>(f));
  EXPECT_GT(by_launch[0], 100);
  EXPECT_GT(by_launch[1], 100);
}

TEST(Plan, IsReadBackAsItWasWritten) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Plan plan = plan_of(seed);
    const std::string text = to_text(plan);
    const Result<Plan> again = plan_from_text(text);
    ASSERT_TRUE(again.ok()) << again.error().text;
    EXPECT_EQ(to_text(*again), text);
  }
}

TEST(Plan, MistakesAreNamedWithTheirPlace) {
  EXPECT_EQ(plan_from_text("peers = 4\nfoundres = 2\n").error().text,
            "2:1: unknown key \"foundres\"; did you mean 'founders'?");
  EXPECT_EQ(plan_from_text("[[do]]\nfault = \"crahs\"\n").error().text,
            "2:9: unknown fault \"crahs\"; did you mean 'crash'?");
  EXPECT_FALSE(plan_from_text("peers = \"many\"").ok());
  EXPECT_FALSE(plan_from_text("peers = 1000").ok());
  EXPECT_FALSE(plan_from_text("peers = ").ok());
}

}  // namespace
}  // namespace lockstep::sim
