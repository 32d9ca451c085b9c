#include "tests/lab/wan/as_scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::wan {
namespace {

TEST(AsScenario, LinesStayAsTheyAreAndItsWorkIsOneAllReduce) {
  const Result<sim::Plan> plan = as_plan(R"(
    peers = 3
    net = { model = "flow", congestion = "bbr", latency = "20ms", up = "100Mbit/s", down = "80Mbit/s", loss = "0.1%" }
    link = [{ between = "a b", latency = "30ms", rate = "16Mbit/s" }]
    line = [{ of = "c", up = "8Mbit/s" }])",
                                         8U << 20U);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  const sim::NetworkOptions& net = plan->network;
  EXPECT_EQ(plan->founders, 3U);
  EXPECT_EQ(net.latency_hi_ns, 20'000'000);
  EXPECT_EQ(net.jitter_ns, 0);
  EXPECT_TRUE(net.flow.on);
  EXPECT_EQ(net.flow.congestion, sim::flow::Congestion::kBbr);
  EXPECT_EQ(net.flow.up_bytes_per_s, 12'500'000U);
  EXPECT_EQ(net.flow.down_bytes_per_s, 10'000'000U);
  EXPECT_EQ(net.flow.loss_ppm, 1000U);
  ASSERT_EQ(net.links.size(), 1U);
  EXPECT_EQ(net.links[0].latency_ns, 30'000'000);
  EXPECT_EQ(net.links[0].rate_bytes_per_s, 2'000'000U);
  ASSERT_EQ(net.flow.lines.size(), 1U);
  EXPECT_EQ(net.flow.lines[0].up_bytes_per_s, 1'000'000U);
  ASSERT_EQ(plan->program.work.size(), 1U);
  EXPECT_EQ(plan->program.work[0].count, 2U << 20U);
}

TEST(AsScenario, WhatOnlyTheBoxKnowsIsLeftOut) {
  const auto net = [](const std::string& more, const std::string& top) {
    const Result<sim::Plan> plan =
        as_plan(top + "\npeers = 2\nnet = { model = \"flow\", latency = \"9ms\"" + more + " }", 4096);
    EXPECT_TRUE(plan.ok()) << plan.error().text;
    return plan.ok() ? plan->network : sim::NetworkOptions{};
  };
  EXPECT_EQ(net(", queue = \"64KiB\", burst = 3", "seed = 9\nmtu = 9000"), net("", ""));
  EXPECT_EQ(net("", "tcp = { receive_buffer = \"1MiB\", send_buffer = \"9MiB\" }").window_bytes, 1U << 20U);
  EXPECT_EQ(net("", "").window_bytes, 4U << 20U);
}

TEST(AsScenario, AWayThatIsNotTheSameBackIsRefused) {
  const Result<sim::Plan> plan =
      as_plan("peers = 2\nnet = { model = \"flow\" }\nlink = [{ between = \"a -> b\", latency = \"9ms\" }]", 4096);
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.error().text, testing::HasSubstr("names two, hosts or regions"));
  EXPECT_FALSE(as_plan("peers = ", 4096).ok());
}

}  // namespace
}  // namespace lockstep::wan
