// P2 is shown calls that take as long as lines take, less, and much more.
#include "sim/checkers/p2_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace lockstep::sim {
namespace {

// Three hosts that send 1 MB/s each, 10 ms apart; an all-reduce of 3 MB takes 4 s.
class TimeChecker : public testing::Test {
 protected:
  TimeChecker() {
    plan_.peers = plan_.founders = 3;
    plan_.network.flow = {.on = true, .up_bytes_per_s = 1'000'000, .cold = false};
    call_.request.collective = wire::Collective::kAllReduce;
    call_.request.type = DataType::kF32;
    call_.request.tensors.push_back({{}, {}, 750'000});
    call_.outcome.emplace();
    call_.outcome->contributors = std::make_shared<const std::vector<PeerId>>(3);
  }
  Complaint after(Duration launched_apart, Duration took) {
    flow::Topology topology(plan_.network.flow, 4, 1U << 30U, [](std::uint32_t, std::uint32_t) {
      return flow::Way{10'000'000, 0, 0};
    });
    RingOfHosts ring{Instant{}, Instant{} + launched_apart, {1, 2, 3}};
    call_.ended = Instant{} + took;
    TimeLimits limits(plan_, topology, ring.hosts);
    limits.add(call_, true);
    return check_time(call_, ring, limits);
  }

  Plan plan_;
  Call call_;
};

TEST_F(TimeChecker, AcceptsTheTimeThatTheLinesTake) { EXPECT_EQ(after({}, milliseconds(4100)), std::nullopt); }

TEST_F(TimeChecker, RejectsATimeBelowThatOfTheLines) {
  EXPECT_THAT(*after({}, milliseconds(3900)), testing::HasSubstr("took 3900000000 ns"));
  EXPECT_THAT(*after({}, milliseconds(3900)), testing::HasSubstr("which its lines alone take 4000000000 ns"));
}

TEST_F(TimeChecker, SeveralTimesThatIsTooMuch) {
  EXPECT_EQ(after({}, seconds(12)), std::nullopt);
  EXPECT_THAT(*after({}, seconds(30)), testing::HasSubstr("more than 3 times the"));
}

TEST_F(TimeChecker, TimeBeforeTheLastLaunchDoesNotCount) { EXPECT_EQ(after(seconds(60), seconds(66)), std::nullopt); }

}  // namespace
}  // namespace lockstep::sim
