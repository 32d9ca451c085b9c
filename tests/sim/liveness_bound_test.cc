// The bound grows with what there is to do, and slow links are given their time.
#include "sim/workload/liveness_bound.h"

#include <utility>

#include <gtest/gtest.h>

#include "sim/scenario/scenario.h"
#include "sim/world/world.h"
#include "tests/support/sanitized.h"

namespace lockstep::sim {
namespace {

TEST(LivenessBound, GrowsWithTheWorkAndTheSlowestLink) {
  Plan plan;
  plan.heartbeat = milliseconds(200);
  plan.program.max_count = 0;
  plan.network.latency_hi_ns = 0;
  plan.network.jitter_ns = 0;
  plan.program.think = Duration{};
  EXPECT_EQ(liveness_bound(plan), lockstep::seconds(50));
  plan.program.work = {{wire::Collective::kAllReduce, 1'000'000, DataType::kF32}};
  plan.delays.kernel_ns_per_kib = 0;
  plan.network.rate_bytes_per_s = 1'000'000;
  EXPECT_EQ(liveness_bound(plan), lockstep::seconds(50 + 4 * 8));
  plan.network.links.push_back({1, 2, 0, 100'000});
  EXPECT_EQ(liveness_bound(plan), lockstep::seconds(50 + 4 * 80));
  plan.program.think = lockstep::seconds(10);
  EXPECT_EQ(liveness_bound(plan), lockstep::seconds(50 + 4 * 80 + 4 * 10)) << "others wait for who thinks";
  plan.program.steps_per_admit = 30;
  EXPECT_EQ(liveness_bound(plan), lockstep::seconds(50 + 30 * (80 + 10))) << "newcomers wait for the next admit";
}

// 100 segments of which each of two members owns 50.
TEST(LivenessBound, EachTurnOfAnOwnerTakesARoundTrip) {
  Plan plan;
  plan.program.work = {{wire::Collective::kAllReduce, 1500, DataType::kU64}};
  plan.links.segment_bytes = 120;
  const Duration without = time_of_step(plan);
  plan.links.turns = 1;
  EXPECT_EQ((time_of_step(plan) - without).ns, 50 * round_trip_of(plan).ns);
  plan.links.turns = 5;
  EXPECT_EQ((time_of_step(plan) - without).ns, 10 * round_trip_of(plan).ns);
  plan.program.grids = true;
  EXPECT_EQ((time_of_step(plan) - without).ns, 20 * round_trip_of(plan).ns) << "to the relay, and to the owner";
}

TEST(LivenessBound, SegmentsAreThoseThatTheLibraryChoosesForFarPeers) {
  Plan plan;
  for (const auto& [bytes, turns] : {std::pair{1500, 8}, std::pair{16 << 20, 128}}) {
    plan.program.work = {{wire::Collective::kAllReduce, static_cast<std::uint64_t>(bytes), DataType::kU8}};
    plan.links.turns = 0;
    const Duration without = time_of_step(plan);
    plan.links.turns = 1;
    EXPECT_EQ((time_of_step(plan) - without).ns, turns * round_trip_of(plan).ns) << bytes;
  }
}

TEST(LivenessBound, ASlowNetworkIsNoBrokenPromise) {
  if (kSanitized) GTEST_SKIP() << "one long run, of what shorter ones do, too";
  const Result<Scenario> scenario = scenario_from_text(R"(
peers = 2
net = { profile = "world", rate = "750kbit/s" }
work = ["all_reduce 5MiB f32 sum"]
faults_end = "1s")");
  ASSERT_TRUE(scenario.ok()) << scenario.error().text;
  const Report report = run(plan_of(*scenario, 0));
  EXPECT_FALSE(report.failure) << report.failure->promise << ": " << report.failure->text;
}

}  // namespace
}  // namespace lockstep::sim
