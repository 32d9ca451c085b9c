// Whole runs of the simulator: clean, lively and the same every time.
#include <algorithm>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "sim/plan/plan_file.h"
#include "sim/workload/text.h"
#include "sim/world/world.h"
#include "tests/support/sanitized.h"

namespace lockstep::sim {
namespace {

std::string repeat(std::uint64_t seed, const Report& report) {
  return "seed " + std::to_string(seed) + ": " + report.failure->promise + ": " + report.failure->text +
         "\nlockstep sim run --seed " + std::to_string(seed) + " --trace";
}

struct Sums {
  std::uint64_t commits = 0;
  std::uint64_t aborts = 0;
  std::uint64_t views = 0;
  std::uint64_t kills = 0;
  std::uint64_t cuts = 0;
  std::uint64_t races = 0;
};

Sums run_all(std::uint64_t first, std::uint64_t count, const PlanOptions& options) {
  Sums sums;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Report report = run(plan_of(seed, options));
    EXPECT_FALSE(report.failure) << repeat(seed, report);
    sums.commits += report.commits;
    sums.aborts += report.aborts;
    sums.views += report.views;
    sums.kills += report.kills;
    sums.cuts += report.cuts;
    sums.races += report.revoked_midway;
  }
  return sums;
}

TEST(Run, SeedsAreCleanAndLively) {
  PlanOptions options;
  options.max_peers = 8;
  options.payload = PlanOptions::Payload::kToken;
  constexpr std::uint64_t kSeeds = 300 / kShare;
  const Sums sums = run_all(1, kSeeds, options);
  // A simulator in which little happens proves little.
  EXPECT_GT(sums.commits, kSeeds * 20);
  EXPECT_GT(sums.aborts, kSeeds / 2);
  EXPECT_GT(sums.views, kSeeds * 4);
  EXPECT_GT(sums.kills, kSeeds / 3);
  EXPECT_GT(sums.cuts, kSeeds / 3);
  EXPECT_GT(sums.races, kSeeds / 100);  // 37 in 1000 seeds: a driver that reads at once leaves few
}

// Rule 35. The program of one peer writes to a buffer of a call in flight: every peer learns which one, and nobody is
// lost.
TEST(Run, APeerWhoseBufferChangesIsNamedAndNobodyIsLost) {
  for (std::uint32_t host = 1; host <= 3; ++host) {
    std::uint64_t named = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      PlanOptions plan_options;
      plan_options.peers = 3;
      plan_options.calm = true;
      plan_options.payload = PlanOptions::Payload::kBytes;
      Plan plan = plan_of(seed, plan_options);
      Entry entry;
      entry.fault = Fault::kMiscompute;
      entry.launch = 4 + seed;
      entry.a = host;
      plan.entries.push_back(entry);
      WorldOptions options;
      std::string last;
      options.trace = [&](const std::string& line) {
        if (line.find("changed during the call") != std::string::npos) last = line;
      };
      const Report report = run(plan, options);
      EXPECT_FALSE(report.failure) << repeat(seed, report);
      EXPECT_EQ(report.lost_runs, 0U) << seed;
      if (!last.empty()) ++named;
    }
    EXPECT_GE(named, 3U) << host;
  }
}

TEST(Run, SeedsWithRealBytesAreClean) {
  PlanOptions options;
  options.max_peers = 5;
  options.payload = PlanOptions::Payload::kBytes;
  EXPECT_GT(run_all(5000, 40 / kShare, options).commits, 40 / kShare * 20);
}

TEST(Run, CalmSeedsAbortNothing) {
  PlanOptions options;
  options.max_peers = 8;
  options.calm = true;
  const Sums sums = run_all(9000, 40 / kShare, options);
  EXPECT_EQ(sums.aborts, 0U);
  EXPECT_GT(sums.commits, 40 / kShare * 10);
}

TEST(Run, ASeedGivesTheSameHashInAnyOrder) {
  std::vector<std::uint64_t> hashes;
  for (std::uint64_t seed = 20; seed < 20 + 20 / kShare; ++seed) hashes.push_back(run(plan_of(seed)).hash);
  for (std::uint64_t seed = 20 + 20 / kShare; seed-- > 20;)
    EXPECT_EQ(run(plan_of(seed)).hash, hashes[seed - 20]) << seed;
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::unique(hashes.begin(), hashes.end()), hashes.end());
}

TEST(Run, TracingChangesNothing) {
  WorldOptions options;
  std::size_t lines = 0;
  options.trace = [&](const std::string&) { lines += 1; };
  options.trace_streams = true;
  EXPECT_EQ(run(plan_of(3), options).hash, run(plan_of(3)).hash);
  EXPECT_GT(lines, 100U);
}

// The saved state of a machine is complete: a machine that loads it behaves equally from then on.
TEST(Run, MachinesThatAreSavedAndLoadedChangeNothing) {
  PlanOptions options;
  options.max_peers = 6;
  options.payload = PlanOptions::Payload::kBytes;
  std::uint64_t renewals = 0;
  for (std::uint64_t seed = 300; seed < 300 + 60 / kShare; ++seed) {
    const Plan plan = plan_of(seed, options);
    WorldOptions renewing;
    renewing.renew_one_in = 1 + seed % 50;
    const Report report = run(plan, renewing);
    EXPECT_EQ(report.hash, run(plan).hash) << seed;
    EXPECT_FALSE(report.failure) << repeat(seed, report);
    renewals += report.renewals;
  }
  EXPECT_GT(renewals, 60 / kShare * 200);
}

TEST(Run, APlanFromItsFileGivesTheSameRun) {
  for (std::uint64_t seed = 60; seed < 60 + 10 / kShare; ++seed) {
    const Plan plan = plan_of(seed);
    EXPECT_EQ(run(*plan_from_text(to_text(plan))).hash, run(plan).hash);
  }
}

TEST(Run, TheStoryOfTheDemoIsClean) {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/sim/scenarios/demo.toml");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const Result<Plan> plan = plan_from_text(text);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  const Report report = run(*plan);
  EXPECT_FALSE(report.failure) << report.failure->text;
  EXPECT_EQ(report.kills, 1U);
  EXPECT_EQ(report.leaves, 1U);
  EXPECT_EQ(report.joins, 2U);
  EXPECT_EQ(report.stalls, 1U);
  EXPECT_EQ(report.lost_runs, 1U);
}

}  // namespace
}  // namespace lockstep::sim
