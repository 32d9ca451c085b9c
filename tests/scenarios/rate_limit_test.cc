// A peer sends no more than its program allows (rule 62 of docs/protocol.md), and not much less.
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "sim/plan/plan.h"
#include "tests/support/cluster.h"

namespace lockstep {
namespace {

class RateLimit : public ::testing::TestWithParam<wire::Algorithm> {
 protected:
  static constexpr std::uint64_t kTensor = std::uint64_t{4} << 20U;

  // Of an all-reduce among four.
  static double seconds_at(std::uint64_t bytes_per_second) {
    Cluster cluster = Cluster::of(4);
    cluster.plan([&](sim::Plan& plan) { plan.links.bytes_per_second = bytes_per_second; });
    cluster.start_all();
    ring::Request request = all_reduce(Tag{1}, kTensor / 4);
    request.algorithm = GetParam();
    return cluster.seconds_of(request);
  }
};

TEST_P(RateLimit, ACallTakesTheTimeThatItsBytesNeed) {
  constexpr double kSent = 1.5 * kTensor;  // 2(n-1)/n of the bytes, by each member
  for (const std::uint64_t rate : {500'000U, 2'000'000U}) {
    const double needs = kSent / static_cast<double>(rate);
    const double took = seconds_at(rate);
    EXPECT_GE(took, 0.9 * needs) << rate << ": one segment is in advance";
    EXPECT_LE(took, 1.2 * needs) << rate;
  }
  EXPECT_LE(seconds_at(0), 1) << "no limit";
}

INSTANTIATE_TEST_SUITE_P(Of, RateLimit, ::testing::Values(wire::Algorithm::kDirect, wire::Algorithm::kRing),
                         [](const auto& each) { return std::string(name_of(each.param)); });

}  // namespace
}  // namespace lockstep
