// The two-dimensional discrete cosine transform of a tile, equal bit for bit on every CPU.
//
// The transform works on integers: cosines with 15 binary places, and elements of a tile with 16 bits, as multiples of
// a power of two that fits the largest of them. Every product and every partial sum is an integer below 2^53, which
// float64 holds exactly. So no operation rounds, and the order of the sums does not matter: a fast transform that adds
// symmetric elements first gives the bits of the matrix products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::training {

inline constexpr std::size_t kLongestSide = 64;  // of a tile: a place in a tile has 12 bits

// The matrix of the orthonormal DCT-II of `count` elements, times 2^15, rounded to integers: row u, column x.
std::vector<std::int32_t> cosines(std::size_t count);

// A coefficient of a tile that is not 0. place: row * width + column.
struct Coefficient {
  std::uint32_t place;
  float value;
};

// The transform of tiles of one size, and its inverse. A tile with a NaN or an infinity becomes NaN everywhere, the
// canonical one. Immutable; any thread may use it. Needs the default floating-point environment, which costs as much to
// enter as a small tile: see StandardFloats.
class TileDct {
 public:
  // height, width: 1 to kLongestSide.
  TileDct(std::size_t height, std::size_t width);

  [[nodiscard]] std::size_t height() const { return height_; }
  [[nodiscard]] std::size_t width() const { return width_; }
  [[nodiscard]] std::size_t size() const { return height_ * width_; }

  // The orthonormal DCT-II of tiles that lie side by side. values: the first element of the first tile; rows of the
  // matrix lie `stride` elements apart. coefficients: tile after tile, each row by row.
  void forward(const float* values, std::size_t stride, std::size_t tiles, float* coefficients) const;

  // The DCT-III of one tile. coefficients: ascending places. values: as above.
  void backward(std::span<const Coefficient> coefficients, float* values, std::size_t stride) const;

 private:
  std::size_t height_;
  std::size_t width_;
  std::vector<double> by_rows_;     // of `height` elements: row u, column x, in rows of kLongestSide
  std::vector<double> by_columns_;  // of `width` elements, likewise
  // The same cosines for the fast transform: stages of rows, and the odd and even rows of the columns, transposed.
  std::vector<double> stages_;
  std::vector<double> odd_;
  std::vector<double> even_;
};

}  // namespace lockstep::training
