#include "sim/flow/ring_model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

namespace lockstep::sim::flow {
namespace {

constexpr std::int64_t kMilli = 1'000'000;
constexpr double kNanoseconds = 1e9;

std::vector<std::uint32_t> ring_of(std::uint32_t peers) {
  std::vector<std::uint32_t> ring(peers);
  std::iota(ring.begin(), ring.end(), 1U);
  return ring;
}

Topology topology(const Options& options, std::int64_t latency_ns, std::uint64_t window = 1U << 30U) {
  return {options, 17, window, [=](std::uint32_t, std::uint32_t) { return Way{latency_ns, 0, 0}; }};
}

// 2 (n - 1) / n of the bytes over every line; and at the end what no pipelining hides: the last segment of the last
// chunk.
RC_GTEST_PROP(RingModel, OfEqualsIsAsFastAsTheClosedForm, ()) {
  const auto peers = *rc::gen::inRange<std::uint32_t>(2, 17);
  const auto rate = *rc::gen::inRange<std::uint64_t>(1'000'000, 200'000'000);
  const auto latency = *rc::gen::inRange<std::int64_t>(0, 20) * kMilli;
  const auto count = *rc::gen::inRange<std::uint64_t>(4'000'000, 8'000'000) / peers * peers;
  RingRun run{.ring = ring_of(peers), .count = count};
  const RingTime time = ring_time(topology({.on = true, .up_bytes_per_s = rate, .cold = false}, latency), run);
  const double n = peers;
  const double bytes = static_cast<double>(count) * 4;
  const double line = 2 * (n - 1) / n * bytes / static_cast<double>(rate) * kNanoseconds;
  const double chunk = bytes / n / static_cast<double>(rate) * kNanoseconds;
  const double hop = static_cast<double>(latency) + chunk / 4;  // two segments of eight are on their way together
  RC_ASSERT(static_cast<double>(time.ns) >= line * 0.999);
  RC_ASSERT(static_cast<double>(time.ns) <= line + (2 * n - 2) * hop);
  if ((n - 1) * hop < chunk) RC_ASSERT(static_cast<double>(time.ns) <= line * 1.01 + 2 * hop);
}

TEST(RingModel, TheSlowestLineDecides) {
  Options options{.on = true, .up_bytes_per_s = 100'000'000, .cold = false};
  options.lines.push_back({.hosts = 1U << 3U, .up_bytes_per_s = 10'000'000});
  const RingTime time = ring_time(topology(options, kMilli), {.ring = ring_of(5), .count = 5'000'000});
  EXPECT_NEAR(static_cast<double>(time.ns), 2 * 4 / 5.0 * 20e6 / 10e6 * kNanoseconds, 0.05 * kNanoseconds);
  ASSERT_NE(time.busiest, kNoResource);
  const Topology names = topology(options, kMilli);
  EXPECT_EQ(names.names()[time.busiest].hosts, 1U << 3U);
  EXPECT_GT(time.busy, 0.98);
}

// Four streams cross the uplink where the ring leaves the region twice; two where it does once.
TEST(RingModel, ARegionIsLeftOnceByAGoodRing) {
  Options options{.on = true, .cold = false};
  options.lines.push_back({.hosts = 0b00110, .up_bytes_per_s = 10'000'000});
  RingRun run{.ring = {1, 2, 3, 4}, .count = 4'000'000};
  const RingTime good = ring_time(topology(options, kMilli), run);
  run.ring = {1, 3, 2, 4};
  const RingTime bad = ring_time(topology(options, kMilli), run);
  EXPECT_NEAR(static_cast<double>(bad.ns) / static_cast<double>(good.ns), 2, 0.05);
}

TEST(RingModel, AWindowIsABottleneckOfItsStream) {
  const RingTime time =
      ring_time(topology({.on = true, .up_bytes_per_s = 1'000'000'000, .cold = false}, 50 * kMilli, 1U << 20U),
                {.ring = ring_of(2), .count = 10'000'000});
  // 20 MB each way and phase, over two streams of 1 MiB per 100 ms; then what the slower of the two has still to send.
  EXPECT_NEAR(static_cast<double>(time.ns), 40e6 / (2 * 10.48576e6) * kNanoseconds, 0.3 * kNanoseconds);
  EXPECT_EQ(time.busiest, kNoResource);
  EXPECT_FALSE(time.by_loss);
}

// A socket holds 350 kB there, a segment has 1 MiB: the next bytes wait for room, not for the end of the segment.
TEST(RingModel, ASegmentLargerThanTheSocketDoesNotStopItsStream) {
  const Options options{.on = true, .up_bytes_per_s = 2'500'000, .cold = false};
  const RingTime time = ring_time(topology(options, 20 * kMilli), {.ring = ring_of(2), .count = 4U << 20U});
  EXPECT_NEAR(static_cast<double>(time.ns) / (16.777216 / 2.5 * kNanoseconds), 1, 0.02);
  EXPECT_GT(time.busy, 0.98);
}

// The remainder of a segment after the socket was full is not a short message, which would not wait.
TEST(RingModel, TheEndOfASegmentIsCarriedLikeTheRestOfIt) {
  const Options options{.on = true, .up_bytes_per_s = 2'620'130, .cold = false};
  const RingTime time = ring_time(topology(options, 0), {.ring = ring_of(2), .count = 4'000'000});
  EXPECT_GE(static_cast<double>(time.ns), 16e6 / 2'620'130 * kNanoseconds * 0.9999);
}

TEST(RingModel, OneRankIsDoneAtOnce) {
  EXPECT_EQ(ring_time(topology({.on = true}, kMilli), {.ring = {1}, .count = 1000}).ns, 0);
}

TEST(RingModel, WarmStreamsAreFaster) {
  RingRun run{.ring = ring_of(3), .count = 3'000'000};
  const Options options{.on = true, .up_bytes_per_s = 100'000'000};
  const RingTime cold = ring_time(topology(options, 40 * kMilli), run);
  run.before = 1;
  const RingTime warm = ring_time(topology(options, 40 * kMilli), run);
  EXPECT_LT(warm.ns, cold.ns * 3 / 4);
}

}  // namespace
}  // namespace lockstep::sim::flow
