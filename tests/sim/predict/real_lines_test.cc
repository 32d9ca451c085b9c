// The payload rate of a line after headers and acknowledgements, in closed form.
#include "sim/predict/real_lines.h"

#include <gtest/gtest.h>

#include "sim/flow/max_min.h"
#include "sim/predict/predict.h"
#include "sim/scenario/scenario.h"

namespace lockstep::sim {
namespace {

// 100 Mbit/s are 8333.3 packets of 1500 bytes a second, each with 1448 of payload.
TEST(RealLines, HeadersTake52BytesOfEveryPacket) {
  EXPECT_EQ(payload_rate(12'500'000, 1500, false), 12'066'666U);
  EXPECT_EQ(payload_rate(12'500'000, 9000, false), 12'427'777U);
  EXPECT_EQ(payload_rate(12'500'000, 104, false), 6'250'000U);
}

// 3052 bytes of the line for 2896 of payload: two packets out, and an acknowledgement for two that came in.
TEST(RealLines, AcknowledgementsTake52BytesForTwoPacketsThatComeTheOtherWay) {
  EXPECT_EQ(payload_rate(12'500'000, 1500, true), 11'861'074U);
  EXPECT_EQ(payload_rate(3052, 1500, true), 2896U);
}

TEST(RealLines, NoLimitStaysNone) {
  EXPECT_EQ(payload_rate(0, 1500, true), 0U);
  EXPECT_EQ(payload_rate(flow::kMostRate, 1500, false), flow::kMostRate);
  EXPECT_EQ(payload_rate(1, 1500, true), 1U);
}

Plan with_every_kind_of_line(std::uint32_t founders) {
  Plan plan;
  plan.founders = plan.peers = founders;
  plan.network.rate_bytes_per_s = 1500;
  plan.network.links.push_back({.a = 1, .b = 2, .rate_bytes_per_s = 3000});
  plan.network.links.push_back({.a = 1, .b = 3, .latency_ns = 7});
  plan.network.flow = {.on = true, .up_bytes_per_s = 3052, .down_bytes_per_s = 6104};
  plan.network.flow.lines.push_back({.hosts = 0b0110, .up_bytes_per_s = 9156, .down_bytes_per_s = 0});
  return plan;
}

TEST(RealLines, TheLinesOfHostsCarryAcknowledgementsTheWaysOfARingDoNot) {
  Plan plan = with_every_kind_of_line(4);
  leave_room_for_headers(plan, 1500);
  Plan expected = with_every_kind_of_line(4);
  expected.network.rate_bytes_per_s = 1448;
  expected.network.links[0].rate_bytes_per_s = 2896;
  expected.network.flow.up_bytes_per_s = 2896;
  expected.network.flow.down_bytes_per_s = 5792;
  expected.network.flow.lines[0].up_bytes_per_s = 8688;
  EXPECT_EQ(plan, expected);
}

TEST(RealLines, BetweenTwoTheWayCarriesThemToo) {
  Plan plan = with_every_kind_of_line(2);
  plan.network.rate_bytes_per_s = 3052;
  leave_room_for_headers(plan, 1500);
  EXPECT_EQ(plan.network.rate_bytes_per_s, 2896U);
}

// 2 * 3/4 * 8 MiB at 5 MB/s are 2.52 s; of packets, 3052/2896 of that.
TEST(RealLines, APredictionIncludesHeaders) {
  const Result<Scenario> scenario = scenario_from_text(R"(
name = "four at home"
peers = 4
net = { model = "flow", latency = "100us", jitter = "0s", up = "40Mbit/s", slow_start = false }
work = ["all_reduce 8MiB f32 sum"]
)");
  ASSERT_TRUE(scenario.ok()) << scenario.error().text;
  const Result<Prediction> payload = predict(plan_of(*scenario, 0), 0);
  const Result<Prediction> packets = predict(plan_of(*scenario, 0));
  const Result<Prediction> jumbo = predict(plan_of(*scenario, 0), 9000);
  ASSERT_TRUE(payload.ok() && packets.ok() && jumbo.ok());
  const auto seconds = [](const Result<Prediction>& p) { return p->collectives.at(0).again.seconds(); };
  EXPECT_NEAR(seconds(payload), 2.5166, 0.05);
  EXPECT_NEAR(seconds(packets) / seconds(payload), 3052.0 / 2896, 0.002);
  EXPECT_NEAR(seconds(jumbo) / seconds(payload), 18052.0 / 17896, 0.002);
}

}  // namespace
}  // namespace lockstep::sim
