#include "sim/checkers/l6_explained_waits.h"

#include <gtest/gtest.h>

#include "tests/sim/checkers/calls.h"

namespace lockstep::sim {
namespace {

// A beat takes 500 ms, and a round trip next to nothing. The first member calls at 0 s.
class L6ExplainedWaits : public testing::Test {
 protected:
  static Plan plan() {
    Plan plan;
    plan.heartbeat = milliseconds(500);
    return plan;
  }
  static Instant after(std::int64_t ms) { return Instant{} + milliseconds(ms); }
  // The last member calls at `last`, the one before it at `before`.
  [[nodiscard]] Complaint ended(std::int64_t last, std::int64_t before) const {
    Call call = ended_call(kA, committed({kA, kB, kC}));
    call.launch.cohort = kRound.cohort;
    return waits_.ended(call, after(last), after(before));
  }

  ExplainedWaits waits_{plan()};
};

TEST_F(L6ExplainedWaits, AWaitThatIsNotToldFails) {
  EXPECT_FALSE(ended(6'900, 0));
  EXPECT_TRUE(ended(8'000, 0));
}

TEST_F(L6ExplainedWaits, ACallMovesBytesAndPutsTheNewsOffForEightBeats) {
  EXPECT_FALSE(ended(9'900, 6'000));
  EXPECT_TRUE(ended(11'000, 6'000));
}

TEST_F(L6ExplainedWaits, AWaitThatIsToldPasses) {
  (void)waits_.told({.kind = trace::Kind::kCallWaits, .view = {}, .peer = {}, .round = kRound, .number = 1, .text = {}},
                    2, 3);
  EXPECT_FALSE(ended(60'000, 0));
}

}  // namespace
}  // namespace lockstep::sim
