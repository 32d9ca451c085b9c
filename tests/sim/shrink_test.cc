// The shrinker on artificial worlds with known causes: it removes irrelevant parts and keeps the causes.
#include "sim/search/shrink.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "core/base/mutant.h"
#include "sim/cli/trial.h"
#include "sim/plan/plan_file.h"
#include "sim/search/simpler.h"

namespace lockstep::sim {
namespace {

// The first plan that a seed gives with so many faults.
Plan plan_with(std::size_t faults) {
  for (std::uint64_t seed = 0;; ++seed) {
    Plan plan = plan_of(seed);
    if (plan.entries.size() >= faults && plan.gangs.size == 1) return plan;
  }
}

std::size_t count(const Plan& plan, Fault fault) {
  return static_cast<std::size_t>(std::count_if(plan.entries.begin(), plan.entries.end(),
                                                [&](const Entry& entry) { return entry.fault == fault; }));
}

Shrunk shrink_it(const Plan& plan, const Trial& trial, std::uint32_t max_runs = 5000) {
  ShrinkOptions options;
  options.max_runs = max_runs;
  const std::optional<Shrunk> shrunk = shrink(plan, trial, options);
  EXPECT_TRUE(shrunk.has_value());
  return shrunk.value_or(Shrunk{});
}

TEST(Shrink, APassingPlanIsNotShrunk) {
  int runs = 0;
  const auto none = shrink(plan_with(5), [&](const Plan&) {
    runs += 1;
    return std::optional<Broken>();
  });
  EXPECT_FALSE(none.has_value());
  EXPECT_EQ(runs, 1);
}

TEST(Shrink, APromiseThatAlwaysBreaksShrinksToAnEmptyPlan) {
  const Shrunk shrunk = shrink_it(plan_with(15), [](const Plan&) { return Broken{"S2"}; });
  EXPECT_TRUE(shrunk.done);
  EXPECT_TRUE(shrunk.plan.entries.empty());
  EXPECT_EQ(shrunk.plan.peers, 2U);
  EXPECT_EQ(shrunk.plan.gangs.groups, 1U);
  EXPECT_EQ(shrunk.plan.program.ops_per_step, 1U);
  EXPECT_EQ(shrunk.plan.program.max_count, 1U);
  EXPECT_EQ(shrunk.plan.network.jitter_ns, 0);
  EXPECT_EQ(shrunk.plan.network.latency_hi_ns, shrunk.plan.network.latency_lo_ns);
  EXPECT_EQ(shrunk.plan.network.short_permille, 0U);
  EXPECT_LE(shrunk.plan.seed, 1U);
}

TEST(Shrink, TwoFaultsThatOnlyBreakItTogetherStay) {
  Plan plan = plan_with(20);
  plan.entries[3] = {.fault = Fault::kStop, .after = microseconds(123), .launch = 5, .a = 1};
  plan.entries[14] = {.fault = Fault::kStall, .after = nanoseconds(12'345'678), .a = 2, .length = milliseconds(7)};
  std::erase_if(plan.entries, [&](const Entry& entry) {
    return (entry.fault == Fault::kStop && entry.a != 1) || (entry.fault == Fault::kStall && entry.a != 2);
  });
  const Trial both = [](const Plan& p) -> std::optional<Broken> {
    if (count(p, Fault::kStop) == 0 || count(p, Fault::kStall) == 0) return {};
    return Broken{"S1"};
  };
  const Shrunk shrunk = shrink_it(plan, both, 300);
  EXPECT_EQ(count(shrunk.plan, Fault::kStop), 1U);
  EXPECT_EQ(count(shrunk.plan, Fault::kStall), 1U);
  EXPECT_EQ(shrunk.plan.entries.size(), 2U);
  EXPECT_LE(shrunk.runs, 300U);
}

// With an odd number of faults it breaks, with an even number it does not: no half can be left out at once.
TEST(Shrink, ComesToAnEndWhereLessIsNotAlwaysBetter) {
  const Plan plan = plan_with(21);
  const Trial odd = [](const Plan& p) -> std::optional<Broken> {
    if (p.entries.size() % 2 == 0) return {};
    return Broken{"L1"};
  };
  Plan start = plan;
  if (start.entries.size() % 2 == 0) start.entries.pop_back();
  const Shrunk shrunk = shrink_it(start, odd);
  EXPECT_TRUE(shrunk.done);
  EXPECT_EQ(shrunk.plan.entries.size() % 2, 1U);
  EXPECT_LE(shrunk.plan.entries.size(), 3U);
}

TEST(Shrink, AnotherPromiseIsAnotherBug) {
  const Plan plan = plan_with(12);
  const std::size_t most = plan.entries.size();
  const Trial trial = [&](const Plan& p) { return Broken{p.entries.size() == most ? "S2" : "S4"}; };
  const Shrunk shrunk = shrink_it(plan, trial);
  EXPECT_EQ(shrunk.broken.promise, "S2");
  EXPECT_EQ(shrunk.plan.entries.size(), most);
}

TEST(Shrink, FaultsAfterTheFailureGoFirst) {
  Plan plan = plan_with(10);
  for (Entry& entry : plan.entries) entry.launch = 0, entry.event = 0, entry.after = milliseconds(500);
  plan.entries[2].after = milliseconds(10);
  plan.end.safety = seconds(5);
  std::size_t second = 0;
  int runs = 0;
  (void)shrink(plan, [&](const Plan& p) {
    if (++runs == 2) second = p.entries.size();
    if (runs == 2) {
      EXPECT_EQ(p.end.safety, milliseconds(21));
    }
    return Broken{"S2", Instant{milliseconds(20).ns}, 7};
  });
  EXPECT_EQ(second, 1U);
}

TEST(Shrink, TimesBecomeRoundAndHostsMoveUp) {
  Plan plan = plan_with(1);
  plan.peers = 9;
  plan.founders = 7;
  plan.minimum_world = 1;
  plan.gangs.groups = 1;
  plan.entries = {{.fault = Fault::kCrash, .after = nanoseconds(34'567'891), .launch = 13, .a = 8}};
  const Trial trial = [](const Plan& p) -> std::optional<Broken> {
    const bool late = p.entries.size() == 1 && p.entries[0].after >= milliseconds(30);
    if (p.peers < 3 || !late) return {};
    return Broken{"S2"};
  };
  const Shrunk shrunk = shrink_it(plan, trial);
  EXPECT_EQ(shrunk.plan.peers, 3U);
  ASSERT_EQ(shrunk.plan.entries.size(), 1U);
  EXPECT_EQ(shrunk.plan.entries[0].after, milliseconds(30));
  EXPECT_EQ(shrunk.plan.entries[0].launch, 1U);
  EXPECT_LE(shrunk.plan.entries[0].a, 3U);
}

TEST(Shrink, WaysAndLinesGoWithTheirHosts) {
  Plan plan = plan_with(1);
  plan.peers = plan.founders = 4;
  plan.gangs.groups = plan.minimum_world = 1;
  plan.entries = {{.fault = Fault::kCrash, .a = 3}};
  plan.network.links = {{.a = 0, .b = 3, .latency_ns = 7}, {.a = 1, .b = 2, .latency_ns = 8}};
  plan.network.flow.on = true;
  plan.network.flow.lines = {{.hosts = 0b01001}, {.hosts = 0b10010}};
  int moved = 0;
  for (const Plan& fewer : fewer_peers(plan)) {
    if (fewer.peers != 3 || fewer.entries.empty() || fewer.entries[0].a != 2)
      continue;  // without the first or the second
    moved += 1;
    ASSERT_EQ(fewer.network.links.size(), 1U);
    EXPECT_EQ(fewer.network.links[0], (LinkOptions{.a = 0, .b = 2, .latency_ns = 7}));
    ASSERT_EQ(fewer.network.flow.lines.size(), 2U);
    EXPECT_EQ(fewer.network.flow.lines[0].hosts, 0b0101U);
  }
  EXPECT_EQ(moved, 2);
  const Shrunk shrunk = shrink_it(plan, [](const Plan& p) -> std::optional<Broken> {
    const Result<Plan> read = plan_from_text(to_text(p));
    EXPECT_TRUE(read.ok() && *read == p);
    if (p.network.links.empty()) return {};
    return Broken{"S2"};
  });
  EXPECT_EQ(shrunk.plan.peers, 2U);
}

TEST(Shrink, ABugThatNeedsLuckIsFoundWithAnotherSeed) {
  Plan plan = plan_with(6);
  const std::uint64_t seed = plan.seed;
  const Trial trial = [&](const Plan& p) -> std::optional<Broken> {  // with fewer faults only seed 2 breaks the promise
    if (p.seed != (p.entries.size() >= 6 ? seed : 2)) return {};
    return Broken{"S1"};
  };
  const Shrunk shrunk = shrink_it(plan, trial);
  EXPECT_EQ(shrunk.plan.entries.size(), 0U);
  EXPECT_EQ(shrunk.plan.seed, 2U);
}

TEST(Shrink, KeepsToItsRunsAndStopsWhenAsked) {
  int runs = 0;
  int better = 0;
  const Trial trial = [&](const Plan&) {
    runs += 1;
    return Broken{"S2"};
  };
  ShrinkOptions options;
  options.max_runs = 4;
  options.better = [&](const Plan&) { better += 1; };
  const auto few = shrink(plan_with(20), trial, options);
  EXPECT_EQ(runs, 4);
  EXPECT_EQ(better, 3);
  EXPECT_FALSE(few->done);
  runs = 0;
  options.stop = [&] { return runs == 2; };
  (void)shrink(plan_with(20), trial, options);
  EXPECT_EQ(runs, 2);
}

// A candidate that must end badly by itself would be a bug of the shrinker's own making.
TEST(Shrink, EveryPlanThatIsTriedIsLawfulAndCanBeAFile) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Plan plan = plan_of(seed);
    ASSERT_TRUE(is_lawful(plan)) << seed;
    int runs = 0;
    (void)shrink(plan, [&](const Plan& p) -> std::optional<Broken> {
      EXPECT_TRUE(is_lawful(p)) << seed;
      const Result<Plan> read = plan_from_text(to_text(p));
      EXPECT_TRUE(read.ok()) << seed << ": " << read.error().text;
      for (const Entry& entry : p.entries) EXPECT_TRUE(entry.a <= p.peers && entry.b <= p.peers) << seed;
      if (++runs % 3 == 0) return {};
      return Broken{"S2"};
    });
  }
}

// An assertion of core is an answer, too.
Report apart(const Plan& plan) { return try_plan(plan, 60).report; }

// In a build with planted bugs (./run mutants): the real simulator.
TEST(PlantedBugs, ShrinkToAFewFaultsAndPeers) {
  if (!kMutantsBuilt) GTEST_SKIP() << "built without LOCKSTEP_MUTANTS";
  const struct {
    Mutant mutant;
    const char* promise;
  } bugs[] = {{Mutant::kCommitWithoutOne, "S2"}, {Mutant::kAbortsAlone, "S1"}, {Mutant::kJobsNotAwaited, "S4"}};
  for (const auto& bug : bugs) {
    plant(bug.mutant);
    std::uint64_t seed = 0;
    std::optional<Failure> failure;
    while (!(failure = apart(plan_of(seed)).failure) || failure->promise != bug.promise) {
      ASSERT_LT(++seed, 500U) << bug.promise;
    }
    const Trial trial = [](const Plan& plan) -> std::optional<Broken> {
      const Report report = apart(plan);
      if (!report.failure) return {};
      return Broken{report.failure->promise, Instant{report.failure->at_ns}, report.launches};
    };
    const Shrunk shrunk = shrink_it(plan_of(seed), trial, 300);
    EXPECT_EQ(shrunk.broken.promise, bug.promise);
    EXPECT_LE(shrunk.plan.entries.size(), 5U) << bug.promise;
    EXPECT_LE(shrunk.plan.peers, 5U) << bug.promise;
    EXPECT_EQ(apart(shrunk.plan).failure->promise, bug.promise);
    plant(Mutant::kNone);
    EXPECT_FALSE(apart(shrunk.plan).failure) << bug.promise;
  }
}

}  // namespace
}  // namespace lockstep::sim
