// The model of a line, in virtual time.
#include "tests/lab/wan/line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lockstep::wan {
namespace {

constexpr std::uint32_t kPacket = 1500;

LineOptions at_rate(std::uint64_t bytes_per_s, std::uint64_t queue = 1 << 20) {
  LineOptions options;
  options.rate_bytes_per_s = bytes_per_s;
  options.queue_bytes = queue;
  return options;
}

std::vector<Passage> offer_many(Line& line, int count, Duration apart = {}) {
  std::vector<Passage> passages;
  passages.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) passages.push_back(line.offer(Instant{} + apart * i, kPacket));
  return passages;
}

TEST(WanLine, WithoutARateAPacketTakesTheLatencyAlone) {
  LineOptions options;
  options.latency = milliseconds(20);
  Line line(options, 1);
  for (const Passage& passage : offer_many(line, 100)) EXPECT_EQ(passage.at, Instant{} + milliseconds(20));
}

TEST(WanLine, TheRateIsExactOverAnyNumberOfPackets) {
  // A rate of which a packet is no whole number of nanoseconds.
  Line line(at_rate(7'000'003, 1ULL << 40U), 1);
  const auto passages = offer_many(line, 100'000);
  const double expected = 100'000.0 * kPacket / 7'000'003 * 1e9;
  EXPECT_NEAR(static_cast<double>(passages.back().at.ns), expected, 1);
}

TEST(WanLine, AnIdleLineTakesTheNextPacketAtOnce) {
  Line line(at_rate(1'500'000), 1);  // a packet takes a millisecond
  const auto passages = offer_many(line, 50, milliseconds(2));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(passages[static_cast<std::size_t>(i)].at, Instant{} + milliseconds(2 * i + 1));
}

TEST(WanLine, TheQueueTakesWhatFitsAndNoMore) {
  Line line(at_rate(1'500'000, 10ULL * kPacket), 1);
  const auto passages = offer_many(line, 25);
  for (std::size_t i = 0; i < passages.size(); ++i) {
    EXPECT_EQ(passages[i].fate, i < 10 ? Fate::kArrives : Fate::kQueueFull) << i;
  }
  EXPECT_EQ(line.counts().queue_full, 15U);
  EXPECT_EQ(line.counts().longest_queue_bytes, 10ULL * kPacket);
  // A packet later one place is free.
  EXPECT_EQ(line.offer(Instant{} + milliseconds(1), kPacket).at, Instant{} + milliseconds(11));
  EXPECT_EQ(line.offer(Instant{} + milliseconds(1), kPacket).fate, Fate::kQueueFull);
}

TEST(WanLine, OnePacketPassesHoweverShortTheQueueIs) {
  Line line(at_rate(1'500'000, 100), 1);
  EXPECT_EQ(line.offer(Instant{}, kPacket).fate, Fate::kArrives);
  EXPECT_EQ(line.offer(Instant{}, kPacket).fate, Fate::kQueueFull);
  EXPECT_EQ(line.offer(Instant{} + milliseconds(1), kPacket).fate, Fate::kArrives);
}

std::uint64_t lost_of(const LineOptions& options, std::uint64_t seed, int count, std::vector<bool>* which = nullptr) {
  Line line(options, seed);
  for (const Passage& passage : offer_many(line, count)) {
    if (which != nullptr) which->push_back(passage.fate == Fate::kLost);
  }
  return line.counts().lost;
}

TEST(WanLine, LosesItsShareAndTheSameForTheSameSeed) {
  LineOptions options;
  options.loss = 0.01;
  // 100000 packets: 1000 on the average, standard deviation 31.5; five of them.
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const auto lost = lost_of(options, seed, 100'000);
    EXPECT_NEAR(static_cast<double>(lost), 1000, 158) << seed;
    EXPECT_EQ(lost, lost_of(options, seed, 100'000));
  }
  std::vector<bool> one;
  std::vector<bool> other;
  lost_of(options, 1, 10'000, &one);
  lost_of(options, 2, 10'000, &other);
  EXPECT_NE(one, other);
}

TEST(WanLine, LosesInRowsOfTheGivenLength) {
  LineOptions options;
  options.loss = 0.02;
  options.burst = 8;
  std::vector<bool> lost;
  const auto total = lost_of(options, 3, 1'000'000, &lost);
  EXPECT_NEAR(static_cast<double>(total), 20'000, 2'000);
  std::uint64_t rows = 0;
  for (std::size_t i = 1; i < lost.size(); ++i) rows += lost[i] && !lost[i - 1] ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(total) / static_cast<double>(rows), 8, 0.8);
}

TEST(WanLine, JitterSpreadsAndNeverReorders) {
  LineOptions options = at_rate(1'500'000, 1ULL << 40U);
  options.latency = milliseconds(10);
  options.jitter = milliseconds(5);
  Line line(options, 1);
  const auto passages = offer_many(line, 10'000);
  EXPECT_TRUE(
      std::is_sorted(passages.begin(), passages.end(), [](const Passage& a, const Passage& b) { return a.at < b.at; }));
  Duration least{INT64_MAX};
  Duration most{};
  for (std::size_t i = 0; i < passages.size(); ++i) {
    const Duration added = passages[i].at - Instant{} - milliseconds(static_cast<std::int64_t>(i) + 1 + 10);
    least = std::min(least, added);
    most = std::max(most, added);
  }
  EXPECT_GE(least, Duration{});
  EXPECT_LE(most, milliseconds(5));
  EXPECT_GT(most - least, milliseconds(4));
}

TEST(WanLine, WhileItIsCutNothingGoesInOrComesOut) {
  Line line;
  EXPECT_EQ(line.offer(Instant{}, kPacket).fate, Fate::kArrives);
  line.cut();
  line.cut();
  EXPECT_FALSE(line.lets_out());
  EXPECT_EQ(line.offer(Instant{}, kPacket).fate, Fate::kCut);
  line.heal();
  EXPECT_FALSE(line.lets_out());  // another cut lasts on
  line.heal();
  EXPECT_TRUE(line.lets_out());
  EXPECT_EQ(line.offer(Instant{}, kPacket).fate, Fate::kArrives);
  EXPECT_EQ(line.counts().cut, 3U);
}

TEST(WanLine, SlowIsAFractionOfTheRate) {
  Line line(at_rate(1'500'000), 1);
  line.slow(10);
  EXPECT_EQ(line.offer(Instant{}, kPacket).at, Instant{} + milliseconds(10));
  line.speed_up(10);
  EXPECT_EQ(line.offer(Instant{}, kPacket).at, Instant{} + milliseconds(11));
}

}  // namespace
}  // namespace lockstep::wan
