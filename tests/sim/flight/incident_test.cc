// A coordinator's recording becomes a plan in which the same events happen.
#include "sim/flight/incident.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/plan/plan_file.h"
#include "sim/world/world.h"
#include "tests/sim/calm_plan.h"
#include "tests/sim/flight/recording_witness.h"
#include "tests/support/sanitized.h"

namespace lockstep::sim {
namespace {

using testing::HasSubstr;

// Four peers; one crashes, one leaves, one vanishes, one joins.
Plan eventful() {
  Plan plan;
  plan.seed = 3;
  plan.peers = 5;
  plan.founders = 4;
  plan.all_start = false;
  plan.mode = Mode::kBytes;
  plan.program.work = {{wire::Collective::kAllReduce, 100, DataType::kI32, ReduceOp::kMax}};
  plan.end.safety = seconds(8);
  plan.entries = {{.fault = Fault::kCrash, .after = seconds(2), .a = 2, .length = seconds(60)},
                  {.fault = Fault::kLeave, .after = seconds(3), .a = 3, .length = seconds(60)},
                  {.fault = Fault::kJoin, .after = seconds(4), .a = 5},
                  {.fault = Fault::kVanish, .after = seconds(6), .a = 4, .number = 1}};
  return plan;
}

flight::Recording recording_of_coordinator(const Plan& plan, std::size_t bytes = std::size_t{64} << 20U) {
  RecordingWitness witness(bytes);
  WorldOptions options;
  options.witness = &witness;
  const Report report = run(plan, options);
  EXPECT_FALSE(report.failure) << report.failure->text;
  return witness.recordings().front();
}

std::vector<Entry> of_kind(const Plan& plan, Fault fault) {
  std::vector<Entry> found;
  std::copy_if(plan.entries.begin(), plan.entries.end(), std::back_inserter(found),
               [&](const Entry& entry) { return entry.fault == fault; });
  return found;
}

void expect_near(Duration a, Duration b) {
  EXPECT_LT(std::abs((a - b).ns), milliseconds(700).ns) << a.ns << " " << b.ns;
}

TEST(FlightIncident, ListsJoinsLeavesAndLossesWithTheirTimes) {
  const auto incident = incident_of(recording_of_coordinator(eventful()));
  ASSERT_TRUE(incident.ok()) << incident.error().text;
  const Plan& plan = incident->plan;
  EXPECT_EQ(plan.founders, 4U);
  EXPECT_GE(plan.peers, 5U);
  ASSERT_GE(of_kind(plan, Fault::kCrash).size(), 1U);
  expect_near(of_kind(plan, Fault::kCrash).front().after, seconds(2));
  ASSERT_GE(of_kind(plan, Fault::kLeave).size(), 1U);
  expect_near(of_kind(plan, Fault::kLeave).front().after, seconds(3));
  ASSERT_GE(of_kind(plan, Fault::kJoin).size(), 1U);
  expect_near(of_kind(plan, Fault::kJoin).front().after, seconds(4));
  ASSERT_GE(of_kind(plan, Fault::kVanish).size(), 1U);
  expect_near(of_kind(plan, Fault::kVanish).front().after, seconds(6));
  EXPECT_THAT(plan.program.work, testing::Contains(eventful().program.work.front()));
}

TEST(FlightIncident, ItsPlanRunsAndTheSameThingsHappen) {
  const auto incident = incident_of(recording_of_coordinator(eventful()));
  ASSERT_TRUE(incident.ok()) << incident.error().text;
  const std::string text = to_text(*incident);
  EXPECT_THAT(text, HasSubstr("# - the network between hosts is the simulator's own"));
  const Result<Plan> plan = plan_from_text(text);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_EQ(*plan, incident->plan);
  const Report report = run(*plan);
  EXPECT_FALSE(report.failure) << report.failure->promise << ": " << report.failure->text;
  EXPECT_GE(report.kills, 2U);
  EXPECT_GE(report.leaves, 1U);
  EXPECT_GE(report.joins, 1U);
  EXPECT_GT(report.commits, 10U);
  EXPECT_TRUE(report.never_began.empty());
}

TEST(FlightIncident, SeedsMakePlansThatRun) {
  std::size_t made = 0;
  for (std::uint64_t seed = 60; seed < 60 + 15 / kShare; ++seed) {
    PlanOptions options;
    options.max_peers = 5;
    options.payload = PlanOptions::Payload::kBytes;
    RecordingWitness witness(std::size_t{64} << 20U);
    WorldOptions watched;
    watched.witness = &witness;
    run(plan_of(seed, options), watched);
    const auto incident = incident_of(witness.recordings().front());
    if (!incident) continue;
    ++made;
    const Report report = run(incident->plan);
    EXPECT_FALSE(report.failure) << seed << ": " << report.failure->promise << ": " << report.failure->text << "\n"
                                 << to_text(*incident);
  }
  EXPECT_GE(made, 10 / kShare);
}

TEST(FlightIncident, FromTheMiddleTheMembersOfThenAreTheFounders) {
  const flight::Recording recording = recording_of_coordinator(eventful(), 4096);
  ASSERT_GT(recording.before, 0U);
  const auto incident = incident_of(recording);
  ASSERT_TRUE(incident.ok()) << incident.error().text;
  EXPECT_THAT(incident->notes, testing::Contains(HasSubstr("the beginning was overwritten")));
  EXPECT_FALSE(run(incident->plan).failure);
}

TEST(FlightIncident, APeerSeesTooLittle) {
  RecordingWitness witness(1U << 20U);
  WorldOptions options;
  options.witness = &witness;
  Plan plan = calm_plan();
  plan.mode = Mode::kBytes;
  run(plan, options);
  const auto incident = incident_of(witness.recordings().back());
  ASSERT_FALSE(incident.ok());
  EXPECT_THAT(incident.error().text, HasSubstr("a coordinator's recording"));
}

}  // namespace
}  // namespace lockstep::sim
