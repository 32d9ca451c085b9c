// The search for the largest elements compared with a sort, on every instruction set of the machine.
#include "core/kernels/training/top_k.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/kernels/training/exact_sum.h"
#include "core/kernels/training/reference_sparse.h"
#include "tests/core/kernels/training/floats.h"
#include "tests/support/every_target.h"
#include "tests/support/formats.h"

namespace lockstep::training {
namespace {

using test::Floats;

void check_largest(const Floats& chunk, std::size_t most) {
  const auto expected = reference::keep_largest(chunk, most);
  std::vector<std::uint16_t> places(std::min(most, chunk.size()));
  Floats values(places.size());
  const std::size_t count = keep_largest(chunk, most, places.data(), values.data());
  places.resize(count);
  ASSERT_EQ(places, expected) << chunk.size() << ' ' << most;
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(chunk[places[i]]));
}

class TopK : public test::EveryTarget {};
LOCKSTEP_ON_EVERY_TARGET(TopK);

TEST_P(TopK, IsTheSortForAnyLength) {
  for (const std::size_t length : {1U, 2U, 3U, 15U, 16U, 17U, 63U, 64U, 100U, 1000U, 4095U, 4096U}) {
    for (const std::size_t most : {1U, 2U, 16U, 33U, 64U, 500U, 2048U, 4096U}) {
      check_largest(test::hostile_floats(1, length), most);  // NaN, infinities, denormals and zeros of both signs
      Floats few = test::hostile_floats(2, length);
      for (float& value : few) value = std::isfinite(value) ? static_cast<float>(std::fmod(value, 4.0)) : 3.0F;
      check_largest(few, most);
    }
  }
}

TEST_P(TopK, KeepsTheFirstOfEqualElements) {
  for (const std::size_t most : {1U, 5U, 64U, 1000U}) {
    check_largest(Floats(4096, -1.5F), most);
    Floats values(4096, 1.0F);
    for (std::size_t i = 0; i < values.size(); i += 3) values[i] = i % 2 == 0 ? 2.0F : -2.0F;
    check_largest(values, most);
  }
}

TEST_P(TopK, NeverKeepsZeros) {
  Floats values(300, -0.0F);
  check_largest(values, 64);
  values[299] = std::numeric_limits<float>::denorm_min();
  values[7] = -std::numeric_limits<float>::denorm_min();
  check_largest(values, 64);
  check_largest(values, 1);
}

TEST_P(TopK, SortedValuesAreNoWorstCase) {
  Floats values;
  for (std::size_t i = 0; i < 4096; ++i) values.push_back(static_cast<float>(i));
  check_largest(values, 64);
  std::ranges::reverse(values);
  check_largest(values, 64);
}

// ---- sums that are rounded once ----

TEST(ExactSum, RoundsOnceToNearestEven) {
  const auto sum = [](const Floats& values) {
    ExactSum out;
    for (const float value : values) out.add(value);
    return out.rounded();
  };
  EXPECT_EQ(sum({}), 0.0);
  EXPECT_EQ(sum({1, 2, 3}), 6.0);
  EXPECT_EQ(sum({0x1p-149F, 0x1p-149F}), 0x1p-148);
  EXPECT_EQ(sum({0x1p127F, 0x1p-149F}), 0x1p127);
  EXPECT_EQ(sum({0x1p53F, 1}), 0x1p53);                 // a tie: to even
  EXPECT_EQ(sum({0x1p53F, 1, 0x1p-149F}), 0x1p53 + 2);  // a little more
  EXPECT_EQ(sum({0x1p53F, 2, 1}), 0x1p53 + 4);          // a tie: to even, upwards
  EXPECT_EQ(sum({0x1p54F, 0x1p54F, 3}), 0x1p55);
  EXPECT_EQ(sum({0x1.fffffep127F, 0x1.fffffep127F}), 0x1.fffffep128);
  EXPECT_EQ(sum(Floats(3000, 0.1F)), 3000 * static_cast<double>(0.1F));
  EXPECT_EQ(sum({1, std::numeric_limits<float>::infinity()}), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(sum({std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})));
}

TEST(ExactSum, IsTheSumOfTwoHalvesInAnyOrder) {
  Floats values;
  for (float value : test::hostile_floats(5, 4000))
    if (std::isfinite(value)) values.push_back(std::fabs(value));
  ExactSum forwards;
  ExactSum backwards;
  long double naive = 0;
  for (const float value : values) forwards.add(value), naive += static_cast<long double>(value);
  for (std::size_t i = values.size(); i-- > 0;) backwards.add(values[i]);
  EXPECT_EQ(forwards.rounded(), backwards.rounded());
  EXPECT_NEAR(forwards.rounded() / static_cast<double>(naive), 1.0, 1e-15);
}

}  // namespace
}  // namespace lockstep::training
