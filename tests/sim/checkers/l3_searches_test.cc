#include "sim/checkers/l3_searches.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/world/world.h"
#include "tests/sim/calm_plan.h"

namespace lockstep::sim {
namespace {

constexpr std::uint32_t kPeer = 1;
constexpr const char* kGivesUp = "cannot connect to the coordinator: trying again does not help";

TEST(Searches, ComplainsOfAPeerThatGoesOnAfterAllAddressesWereRejected) {
  Searches searches;
  searches.looks(kPeer, 2);
  searches.rejected(kPeer);
  EXPECT_FALSE(searches.goes_on(kPeer, false));
  searches.rejected(kPeer);
  EXPECT_TRUE(searches.goes_on(kPeer, false));
  EXPECT_FALSE(searches.goes_on(kPeer, true));
  EXPECT_FALSE(searches.ended(kPeer, Status::kRefused, kGivesUp));
  EXPECT_TRUE(searches.ended(kPeer, Status::kTimedOut, "no greeting in time"));
}

TEST(Searches, ComplainsOfAPeerThatGivesUpThoughAnAddressWasNotRejected) {
  Searches searches;
  searches.looks(kPeer, 2);
  searches.rejected(kPeer);
  EXPECT_TRUE(searches.ended(kPeer, Status::kRefused, kGivesUp));
  EXPECT_FALSE(searches.ended(kPeer, Status::kRefused, "the coordinator refused: gang 3 is whole already"));
  searches.rejected(kPeer);
  searches.looks(kPeer, 2);  // another turn
  EXPECT_TRUE(searches.ended(kPeer, Status::kRefused, kGivesUp));
}

// How the runs of h2 end, in a run in which h2 starts again with this run token.
std::vector<std::string> ends_of_runs(std::uint64_t token) {
  Plan plan = calm_plan(3);
  plan.entries.push_back({.fault = Fault::kAbandon, .after = plan.heartbeat * 5, .a = 2, .number = token});
  std::vector<std::string> ends;
  WorldOptions options;
  options.observe = [&](std::uint32_t host, const std::string& line) {
    if (host == 2 && line.starts_with("run over: ")) ends.push_back(line);
  };
  const Report report = run(plan, options);
  EXPECT_FALSE(report.failure) << report.failure->text;
  return ends;
}

TEST(Searches, ARunTokenOfAnotherCoordinatorEndsOneSearchAndTheNextTokenJoins) {
  const std::vector<std::string> ends = ends_of_runs(kOtherKey);
  ASSERT_GE(ends.size(), 2U);
  EXPECT_NE(ends[1].find("trying again does not help"), std::string::npos) << ends[1];
}

TEST(Searches, APeerGoesOnToTheNextAddressOfItsRunToken) {
  for (const std::string& end : ends_of_runs(kOtherKeyFirst)) {
    EXPECT_EQ(end.find("trying again does not help"), std::string::npos) << end;
  }
}

}  // namespace
}  // namespace lockstep::sim
