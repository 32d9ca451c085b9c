// The cells that a run hits; counting them does not change the run.
#include "sim/cover/surveyor.h"

#include <gtest/gtest.h>

#include "sim/world/world.h"
#include "tests/sim/calm_plan.h"

namespace lockstep::sim::cover {
namespace {

Report run_seen(const Plan& plan, Hits& hits) {
  Surveyor surveyor(hits);
  WorldOptions options;
  options.witness = &surveyor;
  return run(plan, options);
}

bool has(const Hits& hits, const std::string& name) {
  for (Cell cell = 0; cell < cell_count(); ++cell) {
    if (name_of(cell) == name) return hits.has(cell);
  }
  ADD_FAILURE() << name;
  return false;
}

TEST(Surveyor, ChangesNothing) {
  for (const std::uint64_t seed : {3U, 17U, 40U}) {
    PlanOptions options;
    options.max_peers = 5;
    const Plan plan = plan_of(seed, options);
    Hits hits;
    EXPECT_EQ(run(plan).hash, run_seen(plan, hits).hash) << seed;
  }
}

TEST(Surveyor, SeesACalmRun) {
  Hits hits;
  for (const std::uint32_t peers : {2U, 3U, 4U, 5U}) {  // of several messages in one read only the first is counted
    ASSERT_FALSE(run_seen(calm_plan(peers), hits).failure);
  }
  for (const char* const name :
       {"peer-input: new x Connect", "peer-input: looking x Listening", "peer-message: greeting x Waiting",
        "peer-message: waiting x Propose", "peer-message: invited x Install", "peer-message: going x Left",
        "round-message: done x Commit", "coordinator-input: empty x Accepted", "coordinator-message: empty x Join",
        "coordinator-message: founding x Flush"}) {
    EXPECT_TRUE(has(hits, name)) << name;
  }
  for (const Shape& shape : shapes()) {
    if (shape.name.find("fault") == std::string_view::npos) continue;
    for (Cell cell = shape.first; cell < shape.first + shape.size(); ++cell)
      EXPECT_FALSE(hits.has(cell)) << name_of(cell);
  }
}

// Messages on a prefetch link reach a peer but name no round; messages of a sync name one.
TEST(Surveyor, TellsPrefetchLinksFromSyncs) {
  Plan plan = calm_plan(3);
  plan.founders = 2;
  plan.all_start = false;
  plan.state.shared = true;
  plan.state.publish = true;
  plan.state.pieces = 12;
  plan.program.steps_per_admit = 12;
  Entry join;
  join.fault = Fault::kJoin;
  join.a = 3;
  join.after = milliseconds(300);
  plan.entries.push_back(join);
  Hits prefetches;
  for (plan.seed = 0; !has(prefetches, "peer-message: waiting x PieceDigests"); ++plan.seed) {
    ASSERT_LT(plan.seed, 20U);
    ASSERT_FALSE(run_seen(plan, prefetches).failure);
  }
  EXPECT_TRUE(has(prefetches, "round-event: sizes x Elected"));
  EXPECT_FALSE(has(prefetches, "round-message: past x AskDigests"));
  EXPECT_FALSE(has(prefetches, "round-message: past x PieceDigests"));
}

TEST(Surveyor, SeesWhereAFaultBegins) {
  Plan plan = calm_plan();
  Entry crash;
  crash.fault = Fault::kCrash;
  crash.a = 1;
  crash.event = 1;  // the peer has not connected yet
  plan.entries.push_back(crash);
  Entry cut;
  cut.fault = Fault::kCutBoth;
  cut.a = 0;
  cut.b = 1;
  cut.event = 2;
  cut.length = milliseconds(1);
  plan.entries.push_back(cut);
  Hits hits;
  run_seen(plan, hits);
  EXPECT_TRUE(has(hits, "peer-fault: joining x crash"));
  EXPECT_TRUE(has(hits, "peer-fault: down x cut-both"));
  EXPECT_TRUE(has(hits, "coordinator-fault: empty x cut-both"));
  EXPECT_FALSE(has(hits, "peer-fault: idle x crash"));
}

}  // namespace
}  // namespace lockstep::sim::cover
