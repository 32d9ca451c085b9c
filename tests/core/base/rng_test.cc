#include "core/base/rng.h"

#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace lockstep {
namespace {

// The first numbers of SplitMix64 seeded with 0 and with 1234567, as published with its reference code.
TEST(Rng, MixIsSplitMix64) {
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;
  EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafU);
  EXPECT_EQ(mix64(kStep), 0x6e789e6aa1b965f4U);
  EXPECT_EQ(mix64(2 * kStep), 0x06c45d188009454fU);
  EXPECT_EQ(mix64(1234567), 6457827717110365317U);
  EXPECT_EQ(mix64(1234567 + kStep), 3203168211198807973U);
}

TEST(Rng, EveryPartOfTheKeyCounts) {
  std::set<std::uint64_t> seen;
  seen.insert(draw(0, 0));
  seen.insert(draw(1, 0));
  seen.insert(draw(0, 1));
  seen.insert(draw(0, 0, 1));
  seen.insert(draw(0, 0, 0, 1));
  seen.insert(draw(0, 0, 0, 0, 1));
  EXPECT_EQ(seen.size(), 6U);
}

// Recorded runs are repeated by their seed: a draw must never change.
TEST(Rng, KnownDraws) {
  EXPECT_EQ(draw(0, 0), 8695987549771912286U);
  EXPECT_EQ(draw(7, 1, 2, 3, 4), 11656272548833540879U);
}

TEST(Rng, BelowCoversItsRange) {
  EXPECT_EQ(below(0, 10), 0U);
  EXPECT_EQ(below(UINT64_MAX, 10), 9U);
  EXPECT_EQ(below(UINT64_MAX / 2 + 1, 10), 5U);
  EXPECT_EQ(below(UINT64_MAX, 1), 0U);
}

RC_GTEST_PROP(Rng, BelowStaysBelow, (std::uint64_t bits)) {
  const auto bound = *rc::gen::inRange<std::uint64_t>(1, UINT64_MAX);
  RC_ASSERT(below(bits, bound) < bound);
}

}  // namespace
}  // namespace lockstep
