#include "sim/flow/lines.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace lockstep::sim::flow {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kSecond = 1'000'000'000;

Lines lines(const Options& options, std::int64_t latency_ns = 0, std::uint64_t window = 1U << 30U) {
  return Lines(Topology(options, 8, window, [=](std::uint32_t, std::uint32_t) { return Way{latency_ns, 0, 0}; }));
}

// When each message left, by stream.
std::map<Lines::Stream, std::vector<std::int64_t>> run(Lines& lines, std::int64_t from_ns = 0) {
  std::map<Lines::Stream, std::vector<std::int64_t>> left;
  std::vector<Lines::Stream> now_left;
  for (std::int64_t now = lines.next(from_ns); now != Lines::kNever; now = lines.next(now)) {
    now_left.clear();
    lines.take(now, now_left);
    for (const Lines::Stream stream : now_left) left[stream].push_back(now);
  }
  return left;
}

TEST(Lines, MessagesLeaveOneBehindTheOther) {
  Lines l = lines({.on = true, .up_bytes_per_s = 1'000'000, .cold = false});
  const auto s = l.add(1, 2);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(l.push(s, 100'000, 0));
  EXPECT_EQ(run(l)[s], (std::vector<std::int64_t>{100 * kMs, 200 * kMs, 300 * kMs}));
}

// Two share; when the shorter is through, the longer has the line to itself: 100 kB at half, then 100 kB at full rate.
TEST(Lines, RemainingStreamsShareTheRate) {
  Lines l = lines({.on = true, .up_bytes_per_s = 1'000'000, .cold = false});
  const auto a = l.add(1, 2);
  const auto b = l.add(1, 3);
  (void)l.push(a, 100'000, 0);
  (void)l.push(b, 200'000, 0);
  auto left = run(l);
  EXPECT_EQ(left[a], std::vector<std::int64_t>{200 * kMs});
  EXPECT_EQ(left[b], std::vector<std::int64_t>{300 * kMs});
}

TEST(Lines, ARegionSharesItsUplinkButNotItsInnerTraffic) {
  Options options{.on = true, .up_bytes_per_s = 1'000'000, .cold = false};
  options.lines.push_back({.hosts = 0b0110, .up_bytes_per_s = 1'000'000});
  Lines l = lines(options);
  const auto out1 = l.add(1, 3);
  const auto out2 = l.add(2, 4);
  const auto in = l.add(5, 1);
  const auto inside = l.add(6, 7);
  for (const auto s : {out1, out2, in, inside}) (void)l.push(s, 100'000, 0);
  auto left = run(l);
  EXPECT_EQ(left[out1], std::vector<std::int64_t>{200 * kMs});
  EXPECT_EQ(left[out2], std::vector<std::int64_t>{200 * kMs});
  EXPECT_EQ(left[in], std::vector<std::int64_t>{100 * kMs});
  EXPECT_EQ(left[inside], std::vector<std::int64_t>{100 * kMs});
}

// 14,480 bytes in the first round trip of 100 ms, then twice as many, ...
TEST(Lines, AColdStreamDoublesEveryRoundTrip) {
  Lines l = lines({.on = true, .up_bytes_per_s = 100'000'000}, 50 * kMs);
  const auto s = l.add(1, 2);
  (void)l.push(s, 7 * std::uint64_t{14'480}, 0);
  EXPECT_EQ(run(l)[s], std::vector<std::int64_t>{300 * kMs});
  // At once again it is warm: at four times the first window, then at eight; after a long pause it is cold.
  (void)l.push(s, 8 * std::uint64_t{14'480}, 300 * kMs);
  EXPECT_EQ(run(l, 300 * kMs)[s], std::vector<std::int64_t>{450 * kMs});
  (void)l.push(s, 7 * std::uint64_t{14'480}, 60 * kSecond);
  EXPECT_EQ(run(l, 60 * kSecond)[s], std::vector<std::int64_t>{60 * kSecond + 300 * kMs});
}

TEST(Lines, AnIdleStreamSendsAPacketAtOnce) {
  Lines l = lines({.on = true, .up_bytes_per_s = 1'000'000, .cold = false});
  const auto s = l.add(1, 2);
  EXPECT_EQ(l.push(s, 1000, 0), kMs);
  EXPECT_FALSE(l.push(s, 1000, 0)) << "the first is not gone yet";
  EXPECT_EQ(l.push(l.add(3, 2), 1000, 0), kMs);
}

TEST(Lines, ACapacityThatChangesCountsFromThen) {
  Lines l = lines({.on = true, .up_bytes_per_s = 1'000'000, .cold = false});
  const auto s = l.add(1, 2);
  (void)l.push(s, 100'000, 0);
  EXPECT_EQ(l.next(0), 100 * kMs);
  std::vector<Lines::Stream> left;
  l.take(50 * kMs, left);
  l.slow_way(1, 2, 10);
  EXPECT_EQ(l.next(50 * kMs), 550 * kMs);
  EXPECT_TRUE(left.empty());
}

TEST(Lines, LossesCostTheirShareOfTheLine) {
  Lines l = lines(
      {.on = true, .up_bytes_per_s = 1'000'000, .loss_ppm = 100'000, .congestion = Congestion::kBbr, .cold = false},
      10 * kMs);
  const auto s = l.add(1, 2);
  (void)l.push(s, 90'000, 0);
  EXPECT_EQ(run(l)[s], std::vector<std::int64_t>{100 * kMs});
}

}  // namespace
}  // namespace lockstep::sim::flow
