#include "core/peer/own_line.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace lockstep::peer {
namespace {

constexpr std::uint64_t kKibibyte = 1024;

PeerOptions limited_to(std::uint64_t bytes_per_second) {
  PeerOptions limited;
  limited.sending.bytes_per_second = bytes_per_second;
  return limited;
}

// The line is busy for so many seconds. Packets are lost. `kib_per_s`: what the line carries then.
template <typename Rate>
void keep_busy(OwnLine& line, int time, Rate kib_per_s) {
  io::Written all{0, 10 * kKibibyte * kKibibyte, 0};
  Instant now{10'000'000'000};
  for (int tenths = 0; tenths < time * 10; ++tenths) {
    now = now + milliseconds(100);
    all.acknowledged += kib_per_s() * kKibibyte / 10;
    all.lost += 1;
    static_cast<void>(line.written(all, 1, now));
  }
}

Links links_to(std::uint32_t neighbours, Duration round_trip = {}) {
  Links links;
  for (std::uint32_t i = 1; i <= neighbours; ++i) links[PeerId{i, i}].round_trip = round_trip;
  return links;
}

TEST(OwnLine, TheLimitOfTheProgramIsWhatALineOfUnknownRateCarries) {
  EXPECT_EQ(OwnLine(limited_to(0)).report().rate, 0U);
  EXPECT_EQ(OwnLine(limited_to(100 * kKibibyte)).report().rate, 100U);
  EXPECT_EQ(OwnLine(limited_to(1)).report().rate, 1U) << "0 says that the rate is not known";
  EXPECT_EQ(OwnLine(limited_to(UINT64_MAX)).report().rate, UINT32_MAX);
}

TEST(OwnLine, ALineCarriesNoMoreThanTheProgramAllows) {
  for (const std::uint64_t limit : {5'000U, 20'000U, 0U}) {
    OwnLine line(limited_to(limit * kKibibyte));
    keep_busy(line, 10, [] { return std::uint64_t{10'240}; });
    EXPECT_EQ(line.report().rate, limit == 5'000 ? limit : 10'240) << limit;
  }
}

TEST(OwnLine, WhatFillsItDependsOnTheFarthestNeighbourAndTheLimit) {
  const OwnLine line(limited_to(1'000 * kKibibyte));
  EXPECT_FALSE(line.under_way(links_to(2))) << "no round trip is known";
  Links links = links_to(2, milliseconds(10));
  EXPECT_EQ(line.under_way(links)->bytes, std::uint64_t{2} * 10 * kKibibyte);
  links.begin()->second.round_trip = milliseconds(50);
  EXPECT_EQ(line.under_way(links)->bytes, std::uint64_t{2} * 50 * kKibibyte);
}

TEST(OwnLine, AllLinksShare512Stripes) {
  PeerOptions options;
  options.stripes = 2;
  options.most_stripes = 64;
  OwnLine line(options);
  EXPECT_EQ(line.most_stripes(links_to(8)), 64U);
  EXPECT_EQ(line.most_stripes(links_to(16)), 32U);
  EXPECT_EQ(line.most_stripes(links_to(300)), 2U) << "each link has those that are configured";
  EXPECT_EQ(line.wanted_stripes(links_to(16)), 2U);
  // The more streams there are, the more it carries.
  keep_busy(line, 30, [&line] { return std::uint64_t{1024} * line.wanted_stripes(links_to(1)); });
  EXPECT_EQ(line.wanted_stripes(links_to(8)), 64U);
  EXPECT_EQ(line.wanted_stripes(links_to(16)), 32U);
  Links links = links_to(16);
  for (auto& [peer, link] : links) {
    if (peer.low > 8) link.relation = Relation::kPrefetcher;
  }
  EXPECT_EQ(line.wanted_stripes(links), 64U) << "a prefetcher has one";
}

TEST(OwnLine, TellsThatItLosesPacketsOnceItNeedsManyStreams) {
  for (const std::uint16_t configured : {std::uint16_t{2}, std::uint16_t{16}}) {
    PeerOptions options;
    options.stripes = configured;
    options.most_stripes = 128;
    OwnLine line(options);
    EXPECT_FALSE(line.report().loses) << "also with as many as the caller wants";
    keep_busy(line, 30,
              [&line] { return std::uint64_t{1024} * std::min<std::uint16_t>(line.wanted_stripes(links_to(1)), 4); });
    EXPECT_LE(line.wanted_stripes(links_to(1)), std::max<std::uint16_t>(configured, 8));
    keep_busy(line, 60, [&line] { return std::uint64_t{1024} * line.wanted_stripes(links_to(1)); });
    EXPECT_TRUE(line.report().loses);
  }
}

}  // namespace
}  // namespace lockstep::peer
