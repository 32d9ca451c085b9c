#include "sim/explain/perfetto.h"

#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/sim/explain/runs.h"

namespace lockstep::sim {
namespace {

TEST(Perfetto, SlicesArrowsAndNamesAreThere) {
  const History history = history_of(calm_plan());
  const nlohmann::json trace = perfetto_of(history);
  std::map<std::string, std::size_t> phases;
  for (const auto& event : trace.at("traceEvents")) {
    phases[event.at("ph")] += 1;
    EXPECT_TRUE(event.contains("ts") && event.contains("pid") && event.contains("tid"));
  }
  EXPECT_EQ(phases["s"], phases["f"]);  // each arrow has two ends
  EXPECT_GT(phases["s"], 20U);
  EXPECT_EQ(phases["b"], history.calls.size());
  EXPECT_EQ(phases["b"], phases["e"]);
  EXPECT_GT(phases["C"], 0U);
  EXPECT_EQ(trace.at("traceEvents").at(0).at("args").at("name"), "coordinator");
}

TEST(Perfetto, AFaultIsAnInstantAndASpan) {
  const History history = history_with(Fault::kCut);
  const std::string trace = perfetto_of(history).dump();
  EXPECT_NE(trace.find("\"name\":\"cut "), std::string::npos);
}

}  // namespace
}  // namespace lockstep::sim
