// The sweep: every fault at every event, and small plans that survive a share of it.
#include "sim/search/sweep.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <tuple>

#include <gtest/gtest.h>

#include "sim/scenario/scenario.h"
#include "sim/world/world.h"
#include "tests/support/sanitized.h"

namespace lockstep::sim {
namespace {

constexpr std::uint64_t kMoments = kSanitized ? 1 : 2;

TEST(Sweep, HasEveryFaultAtEveryMoment) {
  Plan plan;
  plan.peers = plan.founders = 2;
  const Sweep sweep(plan, 10, 3);  // at events 1, 4, 7 and 10
  EXPECT_EQ(sweep.moments(), 4U);
  EXPECT_EQ(sweep.size(), 4 * single_faults(plan).size());
  std::set<std::string> names;
  std::set<std::uint64_t> events;
  for (std::uint64_t i = 0; i < sweep.size(); ++i) {
    const Plan one = sweep.plan(i);
    ASSERT_EQ(one.entries.size(), 1U);
    EXPECT_EQ(validate_entry(one, one.entries[0]), "");
    names.insert(sweep.name(i) + " for " + std::to_string(one.entries[0].length.ns));
    events.insert(one.entries[0].event);
  }
  EXPECT_EQ(names.size(), sweep.size()) << "some are the same";
  EXPECT_EQ(events, (std::set<std::uint64_t>{1, 4, 7, 10}));
}

// A newcomer joins, and the newcomer or a source dies during its sync: in place, where the landed pieces may be the
// only remains of the state, and staged. At each event one of the three dies, and at the next event another one.
class StateSwept : public testing::TestWithParam<std::tuple<std::uint32_t, std::uint32_t>> {};

TEST_P(StateSwept, SurvivesTheDeathOfAnybody) {
  Plan plan;
  plan.peers = 3;
  plan.founders = 2;
  plan.links.stripes = 1;
  plan.state.shared = true;
  plan.state.pieces = 8;
  plan.state.staged_permille = std::get<0>(GetParam());
  plan.program.work = {{wire::Collective::kAllReduce, 16, DataType::kF32, ReduceOp::kSum}};
  plan.network.latency_lo_ns = plan.network.latency_hi_ns = 50'000;
  plan.end.safety = milliseconds(150);
  plan.program.think = milliseconds(20);
  plan.end.commits_after = 1;
  Entry join;
  join.fault = Fault::kJoin;
  join.a = 3;
  join.after = milliseconds(100);
  plan.entries = {join};
  const Report calm = run(plan);
  ASSERT_FALSE(calm.failure) << calm.failure->text;
  ASSERT_GE(calm.joins, 1U);
  Entry crash;
  crash.fault = Fault::kCrash;
  crash.a = std::get<1>(GetParam());
  const Sweep sweep(plan, calm.healed_at_event, kSanitized ? 40 : 1, {crash});
  const std::uint64_t turns = kSanitized ? 1 : plan.peers;
  for (std::uint64_t i = (crash.a - 1) % turns; i < sweep.size(); i += turns) {
    const Report report = run(sweep.plan(i));
    EXPECT_FALSE(report.failure) << sweep.name(i) << ": " << report.failure->promise << ": " << report.failure->text;
  }
}

INSTANTIATE_TEST_SUITE_P(StagedAndInPlace, StateSwept,
                         testing::Combine(testing::Values(0U, 1000U), testing::Values(1U, 2U, 3U)));

TEST(Sweep, HitsEveryHostAndEveryPairBothWays) {
  Plan plan;
  plan.peers = plan.founders = 3;
  std::set<std::uint32_t> killed;
  std::set<std::pair<std::uint32_t, std::uint32_t>> cut;
  for (const Entry& entry : single_faults(plan)) {
    if (entry.fault == Fault::kCrash) killed.insert(entry.a);
    if (entry.fault == Fault::kCut) cut.emplace(entry.a, entry.b);
  }
  EXPECT_EQ(killed, (std::set<std::uint32_t>{1, 2, 3}));
  EXPECT_EQ(cut.size(), 4U * 3U);
}

constexpr auto kSweeps = LOCKSTEP_SOURCE_DIR "/sim/sweeps";

class Swept : public testing::TestWithParam<std::string> {};

// A few moments of each here; all of them: lockstep sim sweep.
TEST_P(Swept, SurvivesEveryFault) {
  std::ifstream file(std::filesystem::path(kSweeps) / GetParam());
  std::stringstream text;
  text << file.rdbuf();
  const Result<Scenario> scenario = scenario_from_text(text.str());
  ASSERT_TRUE(scenario.ok()) << scenario.error().text;
  const Plan plan = plan_of(*scenario, 0);
  const Report calm = run(plan);
  ASSERT_FALSE(calm.failure) << calm.failure->text;
  const std::uint64_t events = calm.healed_at_event;
  ASSERT_GT(events, 50U) << "there is nothing to hit";
  const Sweep sweep(plan, events, events / kMoments);
  for (std::uint64_t i = 0; i < sweep.size(); ++i) {
    const Report report = run(sweep.plan(i));
    EXPECT_FALSE(report.failure) << sweep.name(i) << ": " << report.failure->promise << ": " << report.failure->text;
  }
}

std::vector<std::string> plans() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kSweeps)) {
    files.push_back(entry.path().filename().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

INSTANTIATE_TEST_SUITE_P(Sweeps, Swept, testing::ValuesIn(plans()), [](const auto& param) {
  std::string name = param.param.substr(0, param.param.find('.'));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace lockstep::sim
