#include "core/kernels/element.h"

#include <cmath>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

template <typename T>
class SmallFloatTest : public testing::Test {
 public:
  static constexpr std::uint32_t kInfinity = std::same_as<T, F16> ? 0x7c00U : 0x7f80U;
  static T of(std::uint32_t bits) { return {static_cast<std::uint16_t>(bits)}; }
};
using SmallFloats = testing::Types<F16, BF16>;
TYPED_TEST_SUITE(SmallFloatTest, SmallFloats);

TYPED_TEST(SmallFloatTest, EveryNumberSurvivesWideningAndNarrowing) {
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const bool nan = (bits & 0x7fffU) > this->kInfinity;
    const float wide = widen(this->of(bits));
    ASSERT_EQ(std::isnan(wide), nan) << bits;
    ASSERT_EQ(narrow<TypeParam>(wide).bits, nan ? kNanBits<TypeParam> : bits) << bits;
  }
}

// Numbers between two neighbours: each becomes the nearer neighbour, and the middle becomes the even one.
TYPED_TEST(SmallFloatTest, RoundsToNearestAndTiesToEven) {
  for (std::uint32_t below = 0; below + 1 < this->kInfinity; ++below) {
    const float low = widen(this->of(below));
    const float high = widen(this->of(below + 1));
    const float middle = low + (high - low) / 2;  // exact: f32 has the bits
    const std::uint32_t even = below % 2 == 0 ? below : below + 1;
    for (const std::uint32_t sign : {0U, 0x8000U}) {
      const auto rounded = [&](float value) { return narrow<TypeParam>(sign != 0 ? -value : value).bits; };
      ASSERT_EQ(rounded(middle), sign | even) << below;
      ASSERT_EQ(rounded(std::nextafter(middle, low)), sign | below) << below;
      ASSERT_EQ(rounded(std::nextafter(middle, high)), sign | (below + 1)) << below;
    }
  }
}

TEST(F16, GoldenValues) {
  EXPECT_EQ(widen(F16{0x3c00}), 1.0F);
  EXPECT_EQ(widen(F16{0x7bff}), 65504.0F);
  EXPECT_EQ(widen(F16{0x0400}), 0x1p-14F);
  EXPECT_EQ(widen(F16{0x03ff}), 0x3ffp-24F);
  EXPECT_EQ(widen(F16{0x8001}), -0x1p-24F);
  EXPECT_TRUE(std::signbit(widen(F16{0x8000})));
  EXPECT_EQ(narrow<F16>(65519.996F).bits, 0x7bff);
  EXPECT_EQ(narrow<F16>(65520.0F).bits, 0x7c00);
  EXPECT_EQ(narrow<F16>(-1e30F).bits, 0xfc00);
  EXPECT_EQ(narrow<F16>(INFINITY).bits, 0x7c00);
  EXPECT_EQ(narrow<F16>(0x1p-25F).bits, 0x0000);
  EXPECT_EQ(narrow<F16>(0x1.000002p-25F).bits, 0x0001);
  EXPECT_EQ(narrow<F16>(-0x1p-149F).bits, 0x8000);
  EXPECT_EQ(narrow<F16>(-NAN).bits, 0x7e00);
}

TEST(BF16, GoldenValues) {
  EXPECT_EQ(widen(BF16{0x3f80}), 1.0F);
  EXPECT_EQ(widen(BF16{0x0001}), 0x1p-133F);
  EXPECT_EQ(narrow<BF16>(3.4e38F).bits, 0x7f80);
  EXPECT_EQ(narrow<BF16>(-INFINITY).bits, 0xff80);
  EXPECT_EQ(narrow<BF16>(0x1p-134F).bits, 0x0000);
  EXPECT_EQ(narrow<BF16>(0x1.8p-133F).bits, 0x0002);
  EXPECT_EQ(narrow<BF16>(-0x1p-149F).bits, 0x8000);
  EXPECT_EQ(narrow<BF16>(std::bit_cast<float>(0xff80'0001U)).bits, 0x7fc0);  // must not round to infinity
}

}  // namespace
}  // namespace lockstep
