#include "sim/explain/history_json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/explain/slice.h"
#include "tests/sim/explain/runs.h"

namespace lockstep::sim {
namespace {

TEST(HistoryJson, HasEverythingByItsPlace) {
  const History history = history_of(calm_plan());
  const nlohmann::json json = to_json(history, {1, 2}, "lockstep sim run --seed 1");
  EXPECT_EQ(json.at("version"), 1);
  EXPECT_EQ(json.at("replay"), "lockstep sim run --seed 1");
  EXPECT_EQ(json.at("slice"), (std::vector<MomentId>{1, 2}));
  EXPECT_EQ(json.at("radius"), kSliceRadius);
  EXPECT_EQ(json.at("moments").size(), history.moments.size());
  EXPECT_EQ(json.at("messages").size(), history.messages.size());
  EXPECT_EQ(json.at("calls").at(0).at("what"), "connect");
  EXPECT_TRUE(json.at("failure").is_null());
  for (const auto& moment : json.at("moments")) {
    for (const auto& cause : moment.at("causes")) EXPECT_TRUE(json.at("distances").contains(cause.at(1)));
    EXPECT_LT(moment.at("after"), json.at("states").size());
  }
}

TEST(HistoryJson, AFailureNamesItsMoment) {
  History history = history_of(calm_plan());
  history.failure = Failure{"S2", "x", 5, 7};
  history.failed = 3;
  const nlohmann::json failure = to_json(history, {}, "").at("failure");
  EXPECT_EQ(failure.at("promise"), "S2");
  EXPECT_EQ(failure.at("moment"), 3);
}

}  // namespace
}  // namespace lockstep::sim
