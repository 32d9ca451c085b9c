// `predict` beside SimGrid: 20 seeded random topologies, and the time of a ring all-reduce on each under SimGrid's CM02
// (tests/lab/simgrid/golden.cc made the numbers).
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/predict/predict.h"
#include "sim/scenario/hosts.h"
#include "sim/scenario/scenario.h"
#include "tests/support/sanitized.h"

namespace lockstep::sim {
namespace {

constexpr double kWithin = 0.10;
// The core sends other messages, too, and the time of a call depends on their moments: topology 3 takes between 9.8 and
// 10.5 % more than SimGrid says.
constexpr double kWithinOfCore = 0.11;

nlohmann::json golden() {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/tests/lab/simgrid/golden.json");
  return nlohmann::json::parse(file);
}

// The same hosts, lines and work as a scenario says them. CM02 knows no slow start, and its kernels take no time.
std::string scenario_of(const nlohmann::json& topology) {
  const nlohmann::json& hosts = topology.at("hosts");
  const nlohmann::json& regions = topology.at("regions");
  const auto rates = [](const nlohmann::json& line) {
    const auto rate = [&](const char* key) {
      return std::to_string(line.at(key).get<std::uint64_t>() / 125) + "kbit/s";
    };
    return "up = \"" + rate("up") + "\"\ndown = \"" + rate("down") + "\"\n";
  };
  std::ostringstream text;
  text << "name = \"golden\"\npeers = " << hosts.size() << "\nstripes = " << topology.at("stripes")
       << "\nsegment_bytes = " << topology.at("segment_bytes") << "\nkernel_rate = \"4000GB/s\"\n"
       << "net = { model = \"flow\", latency = \"1us\", jitter = \"0s\", slow_start = false, window = \""
       << topology.at("window_bytes") << "B\" }\nwork = [\"all_reduce " << topology.at("elements")
       << " f32 sum ring\"]\n";
  for (std::size_t a = 0; a < hosts.size(); ++a) {
    text << "[[line]]\nof = \"" << letter_of(static_cast<std::uint32_t>(a + 1)) << "\"\n" << rates(hosts[a]);
    for (std::size_t b = a + 1; b < hosts.size(); ++b) {
      text << "[[link]]\nbetween = \"" << letter_of(static_cast<std::uint32_t>(a + 1)) << " "
           << letter_of(static_cast<std::uint32_t>(b + 1)) << "\"\nlatency = \"" << topology.at("latency_us")[a][b]
           << "us\"\n";
    }
  }
  for (std::size_t r = 0; r < regions.size(); ++r) {
    std::string inside;
    for (std::size_t h = 0; h < hosts.size(); ++h) {
      if (hosts[h].at("region") == static_cast<int>(r)) inside += " " + letter_of(static_cast<std::uint32_t>(h + 1));
    }
    if (!inside.empty()) text << "[[line]]\nof = \"" << inside << "\"\nshared = true\n" << rates(regions[r]);
  }
  return text.str();
}

class SimGrid : public testing::TestWithParam<std::size_t> {};

TEST_P(SimGrid, SaysTheSame) {
  const nlohmann::json topology = golden().at(GetParam());
  const Result<Scenario> scenario = scenario_from_text(scenario_of(topology));
  ASSERT_TRUE(scenario.ok()) << scenario.error().text << "\n" << scenario_of(topology);
  const Result<Prediction> prediction = predict(plan_of(*scenario, 0), 0);  // CM02 knows no headers
  ASSERT_TRUE(prediction.ok()) << prediction.error().text;
  const CollectiveTime& all_reduce = prediction->collectives.at(0);
  const double simgrid = topology.at("seconds");
  const double schedule = prediction->alone.seconds();
  const double core = all_reduce.again.seconds();
  RecordProperty("table", std::to_string(simgrid) + " " + std::to_string(schedule) + " " + std::to_string(core));
  EXPECT_NEAR(schedule / simgrid, 1, kWithin) << "the ring schedule alone";
  EXPECT_NEAR(core / simgrid, 1, kWithinOfCore) << "the core that ships, with its agreement";
}

INSTANTIATE_TEST_SUITE_P(Topologies, SimGrid,
                         testing::Range(std::size_t{kSanitized ? 5 : 0}, std::size_t{20},
                                        std::size_t{kSanitized ? 10 : 1}));

}  // namespace
}  // namespace lockstep::sim
