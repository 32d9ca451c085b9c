// The transform compared with products of integers, on every instruction set of the machine.
#include "core/kernels/training/dct.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include <gtest/gtest.h>

#include "core/kernels/training/reference_sparse.h"
#include "tests/core/kernels/training/floats.h"
#include "tests/support/every_target.h"
#include "tests/support/formats.h"

namespace lockstep::training {
namespace {

using test::Floats;

std::vector<Coefficient> not_zero(std::span<const float> tile) {
  std::vector<Coefficient> out;
  for (std::uint32_t place = 0; place < tile.size(); ++place)
    if (tile[place] != 0) out.push_back({place, tile[place]});
  return out;
}

struct Size {
  std::size_t height;
  std::size_t width;
};
constexpr Size kSizes[] = {{1, 1}, {1, 64}, {64, 1}, {2, 3}, {7, 7}, {13, 33}, {27, 24}, {63, 50}, {64, 64}};

class Dct : public test::EveryTarget {};
LOCKSTEP_ON_EVERY_TARGET(Dct);

TEST_P(Dct, IsTheProductOfIntegers) {
  for (const auto [height, width] : kSizes) {
    const TileDct dct(height, width);
    for (const float scale : {1.0F, 1e-30F}) {
      const std::size_t size = height * width;
      Floats tile = test::finite_floats(height + 64 * width, size);
      for (float& value : tile) value *= scale;
      Floats coefficients(size);
      dct.forward(tile.data(), width, 1, coefficients.data());
      ASSERT_EQ(test::float_bits(coefficients), test::float_bits(reference::dct(tile, height, width)))
          << height << ' ' << width;
      Floats back(size);
      dct.backward(not_zero(coefficients), back.data(), width);
      ASSERT_EQ(test::float_bits(back), test::float_bits(reference::inverse_dct(coefficients, height, width)))
          << height << ' ' << width;
    }
  }
}

TEST_P(Dct, InvertsFewCoefficients) {
  for (const auto [height, width] : kSizes) {
    const TileDct dct(height, width);
    Floats tile = test::finite_floats(5, height * width);
    for (std::size_t i = 0; i < tile.size(); ++i)
      if (i % 37 != 3) tile[i] = 0;
    Floats back(tile.size());
    dct.backward(not_zero(tile), back.data(), width);
    ASSERT_EQ(test::float_bits(back), test::float_bits(reference::inverse_dct(tile, height, width)))
        << height << ' ' << width;
  }
}

TEST_P(Dct, TransformsTilesSideBySide) {
  for (const auto [height, width] : {Size{1, 64}, Size{1, 7}, Size{5, 8}}) {
    constexpr std::size_t kTiles = 70;
    const std::size_t stride = kTiles * width + 3;
    const Floats matrix = test::finite_floats(6, height * stride);
    Floats coefficients(height * width * kTiles);
    TileDct(height, width).forward(matrix.data(), stride, kTiles, coefficients.data());
    for (std::size_t tile = 0; tile < kTiles; ++tile) {
      Floats alone;
      for (std::size_t row = 0; row < height; ++row)
        for (std::size_t x = 0; x < width; ++x) alone.push_back(matrix[row * stride + tile * width + x]);
      const auto found = std::span(coefficients).subspan(tile * height * width, height * width);
      ASSERT_EQ(test::float_bits(found), test::float_bits(reference::dct(alone, height, width))) << tile;
    }
  }
}

// The largest elements that a tile can have, with signs that add up: partial sums come next to 2^53.
TEST_P(Dct, LargestElementsAreExact) {
  for (const float largest : {1.0F, std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()}) {
    Floats tile(4096, largest);
    Floats coefficients(4096);
    const TileDct dct(64, 64);
    for (int turn = 0; turn < 2; ++turn) {
      dct.forward(tile.data(), 64, 1, coefficients.data());
      ASSERT_EQ(test::float_bits(coefficients), test::float_bits(reference::dct(tile, 64, 64)));
      Floats back(4096);
      dct.backward(not_zero(tile), back.data(), 64);
      ASSERT_EQ(test::float_bits(back), test::float_bits(reference::inverse_dct(tile, 64, 64)));
      const auto matrix = cosines(64);
      for (std::size_t i = 0; i < 4096; ++i)
        if ((matrix[i / 64] < 0) != (matrix[std::size_t{64} * 33 + i % 64] < 0)) tile[i] = -tile[i];
    }
  }
}

TEST_P(Dct, TileThatIsNotFiniteBecomesNaN) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const auto [height, width] : {Size{4, 4}, Size{1, 16}}) {
      Floats tiles(32, 1.0F);
      tiles[0] = bad;
      Floats coefficients(32);
      TileDct(height, width).forward(tiles.data(), 2 * width, 2, coefficients.data());
      for (std::size_t i = 0; i < 32; ++i) ASSERT_EQ(std::isnan(coefficients[i]), i < 16) << i;
    }
    Floats back(16);
    TileDct(4, 4).backward(std::vector<Coefficient>{{2, 1.0F}, {3, bad}}, back.data(), 4);
    for (const float value : back) ASSERT_EQ(test::float_bits({&value, 1})[0], kNanBits<float>);
  }
}

TEST_P(Dct, WritesNothingBehindTheRows) {
  Floats values(100, 7.0F);  // 5 rows of 20
  TileDct(5, 13).backward(std::vector<Coefficient>{{2, 1.0F}}, values.data(), 20);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_TRUE(i % 20 < 13 || values[i] == 7.0F);
}

// So the sums of dct.h stay below 2^53, and every library's cosine rounds to the same integers.
TEST(Cosines, AreSmallEnoughAndLieBesideTies) {
  for (std::size_t count = 1; count <= kLongestSide; ++count) {
    const auto matrix = cosines(count);
    for (std::size_t u = 0; u < count; ++u) {
      double row = 0;
      double column = 0;
      for (std::size_t x = 0; x < count; ++x) {
        row += std::abs(matrix[u * count + x]);
        column += std::abs(matrix[x * count + u]);
        const double root = std::sqrt((u == 0 ? 1.0 : 2.0) / static_cast<double>(count));
        const double angle = std::numbers::pi * static_cast<double>((2 * x + 1) * u) / static_cast<double>(2 * count);
        const double exact = root * std::cos(angle) * 32768;
        ASSERT_LT(std::fabs(exact - matrix[u * count + x]), 0.5 - 1e-6) << count << ' ' << u << ' ' << x;
      }
      ASSERT_LE(std::max(row, column), 8 * 32768 + 32);
    }
  }
}

}  // namespace
}  // namespace lockstep::training
