// Highway compiles this file once for each supported instruction set and chooses among them at run time.
#include "core/kernels/training/dct.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "core/base/assert.h"
#include "core/kernels/element.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/training/dct.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef LOCKSTEP_CORE_KERNELS_TRAINING_DCT_ONCE
#define LOCKSTEP_CORE_KERNELS_TRAINING_DCT_ONCE
namespace lockstep::training {
namespace {

constexpr std::size_t kSide = kLongestSide;
constexpr std::size_t kHalf = kSide / 2;
constexpr int kCosineBits = 15;
constexpr int kElementBits = 16;

// The exponent of the power of two that makes the elements of a tile integers of 16 bits; `largest`: of their absolute
// values.
inline int shift_of(float largest) {
  const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(largest));
  return kElementBits - std::max(static_cast<int>(bits >> 52U) - 1022, -149);
}

// 2^exponent, for a normal result.
inline double power(int exponent) { return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52U); }

inline void fill_with_nan(float* values, std::size_t stride, std::size_t height, std::size_t width) {
  for (std::size_t row = 0; row < height; ++row)
    std::fill_n(values + row * stride, width, std::bit_cast<float>(kNanBits<float>));
}

// Cosines for the transform of columns: for each stage a matrix for the differences of symmetric elements, in rows of
// half the stage's length; at the end a matrix for the elements that have no more symmetry.
struct Columns {
  std::size_t height;
  const double* stages;
};

// Cosines for the transform of rows: one stage; row x of a matrix holds the factors of element x in all results.
struct Rows {
  std::size_t width;
  const double* odd;   // kHalf * kHalf
  const double* even;  // kHalf * kHalf
};

}  // namespace
}  // namespace lockstep::training
#endif  // LOCKSTEP_CORE_KERNELS_TRAINING_DCT_ONCE

HWY_BEFORE_NAMESPACE();
namespace lockstep::training::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, 8>;
using F = hn::Rebind<float, D>;
using V = hn::Vec<D>;
constexpr std::size_t kMostLanes = 8;
constexpr std::size_t kGroup = 4;  // results that are computed at once, of two vectors each

// Rounds to nearest even; what float32 does not hold becomes infinite.
HWY_INLINE hn::Vec<F> narrow_all(V values) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128  // Highway makes it the largest finite number here
  const hn::DFromV<V> d;
  alignas(64) double wide[hn::MaxLanes(d)];
  hn::Store(values, d, wide);
  alignas(64) float narrow[hn::MaxLanes(d)];
  for (std::size_t i = 0; i < hn::MaxLanes(d); ++i) narrow[i] = static_cast<float>(wide[i]);
  return hn::Load(F(), narrow);
#else
  return hn::DemoteTo(F(), values);
#endif
}

float largest_of(const float* values, std::size_t stride, std::size_t height, std::size_t width) {
  std::uint32_t largest = 0;
  for (std::size_t row = 0; row < height; ++row) {
    for (std::size_t i = 0; i < width; ++i)
      largest = std::max(largest, std::bit_cast<std::uint32_t>(values[row * stride + i]) & 0x7fff'ffffU);
  }
  return std::bit_cast<float>(largest);
}

// Elements from `column` on of a row as integers; zeros behind its end.
HWY_INLINE V integers_at(const float* row, std::size_t column, std::size_t width, double scale) {
  const D d;
  if (column >= width) return hn::Zero(d);
  alignas(64) float part[kMostLanes] = {};
  const std::size_t lanes = hn::Lanes(d);
  const bool whole = column + lanes <= width;
  if (!whole) std::memcpy(part, row + column, (width - column) * sizeof(float));
  const auto loaded = hn::LoadU(F(), whole ? row + column : part);
  return hn::Round(hn::Mul(hn::PromoteTo(d, loaded), hn::Set(d, scale)));
}

// Calls store(k, sum0, sum1) for k in [first, first + Count): sums over x < inputs of factor(k, x) times vectors x of
// `in`, which holds two vectors for each x, `stride` elements apart.
template <std::size_t Count, typename Factor, typename Store>
HWY_INLINE void sum_products(std::size_t first, std::size_t inputs, const double* in, std::size_t stride, Factor factor,
                             Store store) {
  const D d;
  V sums[Count][2];
  for (auto& pair : sums) pair[0] = pair[1] = hn::Zero(d);
  for (std::size_t x = 0; x < inputs; ++x) {
    const V in0 = hn::LoadU(d, in + x * stride);
    const V in1 = hn::LoadU(d, in + x * stride + hn::Lanes(d));
    for (std::size_t k = 0; k < Count; ++k) {
      const V by = hn::Set(d, factor(first + k, x));
      sums[k][0] = hn::MulAdd(by, in0, sums[k][0]);
      sums[k][1] = hn::MulAdd(by, in1, sums[k][1]);
    }
  }
  for (std::size_t k = 0; k < Count; ++k) store(first + k, sums[k][0], sums[k][1]);
}

template <typename Factor, typename Store>
HWY_INLINE void all_sums(std::size_t results, std::size_t inputs, const double* in, std::size_t stride, Factor factor,
                         Store store) {
  std::size_t k = 0;
  for (; k + kGroup <= results; k += kGroup) sum_products<kGroup>(k, inputs, in, stride, factor, store);
  for (; k < results; ++k) sum_products<1>(k, inputs, in, stride, factor, store);
}

// The transform of two vectors of columns. in: `height` times two vectors, overwritten. out: rows kSide apart.
HWY_INLINE void transform_columns(const Columns& columns, double* in, double* out) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t each = 2 * lanes;
  alignas(64) double differences[kHalf * 2 * kMostLanes];
  const double* matrix = columns.stages;
  std::size_t count = columns.height;
  std::size_t step = 1;  // rows of the result between two results of this stage
  bool symmetric = true;
  while (symmetric && count > 1) {
    const std::size_t half = count / 2;
    for (std::size_t i = 0; i < half * each; i += lanes) {
      const std::size_t other = (count - 1 - i / each) * each + i % each;
      const V a = hn::Load(d, in + i);
      const V b = hn::Load(d, in + other);
      hn::Store(hn::Add(a, b), d, in + i);
      hn::Store(hn::Sub(a, b), d, differences + i);
    }
    all_sums(
        half, half, differences, each, [=](std::size_t k, std::size_t x) { return matrix[k * half + x]; },
        [=](std::size_t k, V sum0, V sum1) {
          double* const row = out + (2 * k + 1) * step * kSide;
          hn::Store(sum0, D(), row);
          hn::Store(sum1, D(), row + hn::Lanes(D()));
        });
    matrix += half * half;
    symmetric = count % 2 == 0;
    count -= half;
    step *= 2;
  }
  all_sums(
      count, count, in, each, [=](std::size_t k, std::size_t x) { return matrix[k * count + x]; },
      [=](std::size_t k, V sum0, V sum1) {
        double* const row = out + k * step * kSide;
        hn::Store(sum0, D(), row);
        hn::Store(sum1, D(), row + hn::Lanes(D()));
      });
}

// Up to kGroup rows times a matrix of kHalf columns. in, out: rows kHalf apart.
template <std::size_t Count>
HWY_INLINE void rows_times(const double* in, std::size_t inputs, const double* matrix, std::size_t results,
                           double* out) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t k = 0; k < results; k += 2 * lanes) {
    V sums[Count][2];
    for (auto& pair : sums) pair[0] = pair[1] = hn::Zero(d);
    for (std::size_t x = 0; x < inputs; ++x) {
      const V by0 = hn::LoadU(d, matrix + x * kHalf + k);
      const V by1 = hn::LoadU(d, matrix + x * kHalf + k + lanes);
      for (std::size_t row = 0; row < Count; ++row) {
        const V value = hn::Set(d, in[row * kHalf + x]);
        sums[row][0] = hn::MulAdd(value, by0, sums[row][0]);
        sums[row][1] = hn::MulAdd(value, by1, sums[row][1]);
      }
    }
    for (std::size_t row = 0; row < Count; ++row) {
      hn::Store(sums[row][0], d, out + row * kHalf + k);
      hn::Store(sums[row][1], d, out + row * kHalf + k + lanes);
    }
  }
}

// The transform of `Count` rows. values: rows kSide apart. scales: of each row. out: rows without gaps.
template <std::size_t Count>
HWY_INLINE void transform_rows(const Rows& rows, const double* values, const double* scales, float* out) {
  const D d;
  const F f;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t half = rows.width / 2;
  const std::size_t most = rows.width - half;
  alignas(64) double sums[Count * kHalf];
  alignas(64) double differences[Count * kHalf];
  for (std::size_t row = 0; row < Count; ++row) {
    const double* const from = values + row * kSide;
    for (std::size_t x = 0; x < half; ++x) {
      sums[row * kHalf + x] = from[x] + from[rows.width - 1 - x];
      differences[row * kHalf + x] = from[x] - from[rows.width - 1 - x];
    }
    if (half < most) sums[row * kHalf + half] = from[half];
  }
  alignas(64) double even[Count * kHalf];
  alignas(64) double odd[Count * kHalf];
  rows_times<Count>(sums, most, rows.even, most, even);
  rows_times<Count>(differences, half, rows.odd, half == 0 ? 1 : half, odd);
  for (std::size_t row = 0; row < Count; ++row) {
    alignas(64) float results[kSide + 2 * kMostLanes];
    const V scale = hn::Set(d, scales[row]);
    for (std::size_t k = 0; k < most; k += lanes) {
      const auto a = narrow_all(hn::Mul(hn::Load(d, even + row * kHalf + k), scale));
      const auto b = k < std::max<std::size_t>(half, 1) ? narrow_all(hn::Mul(hn::Load(d, odd + row * kHalf + k), scale))
                                                        : hn::Zero(f);
      hn::StoreInterleaved2(a, b, f, results + 2 * k);
    }
    std::memcpy(out + row * rows.width, results, rows.width * sizeof(float));
  }
}

void transform_all_rows(const Rows& rows, const double* values, const double* scales, std::size_t count, float* out) {
  std::size_t row = 0;
  for (; row + kGroup <= count; row += kGroup)
    transform_rows<kGroup>(rows, values + row * kSide, scales + row, out + row * rows.width);
  for (; row < count; ++row) transform_rows<1>(rows, values + row * kSide, scales + row, out + row * rows.width);
}

void forward_tile(const Columns& columns, const Rows& rows, const float* values, std::size_t stride,
                  float* coefficients) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const float largest = largest_of(values, stride, columns.height, rows.width);
  if (!std::isfinite(largest)) return fill_with_nan(coefficients, rows.width, columns.height, rows.width);
  const int shift = shift_of(largest);
  alignas(64) double between[kSide * kSide];
  alignas(64) double in[kSide * 2 * kMostLanes];
  for (std::size_t column = 0; column < rows.width; column += 2 * lanes) {
    for (std::size_t row = 0; row < columns.height; ++row) {
      const float* const from = values + row * stride;
      hn::Store(integers_at(from, column, rows.width, power(shift)), d, in + 2 * lanes * row);
      hn::Store(integers_at(from, column + lanes, rows.width, power(shift)), d, in + 2 * lanes * row + lanes);
    }
    transform_columns(columns, in, between + column);
  }
  alignas(64) double scales[kSide];
  std::fill_n(scales, columns.height, power(-shift - 2 * kCosineBits));
  transform_all_rows(rows, between, scales, columns.height, coefficients);
}

// Tiles of one row: the transform of their columns multiplies by 2^15. At most kSide tiles.
void forward_rows(const Rows& rows, const float* values, std::size_t tiles, float* coefficients) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  alignas(64) double integers[kSide * kSide] = {};
  alignas(64) double scales[kSide] = {};
  bool finite[kSide];
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    const float* const from = values + tile * rows.width;
    const float largest = largest_of(from, 0, 1, rows.width);
    finite[tile] = std::isfinite(largest);
    const int shift = shift_of(finite[tile] ? largest : 1.0F);
    for (std::size_t column = 0; column < rows.width; column += lanes)
      hn::Store(integers_at(from, column, rows.width, power(shift)), d, integers + tile * kSide + column);
    scales[tile] = power(-shift - kCosineBits);
  }
  transform_all_rows(rows, integers, scales, tiles, coefficients);
  for (std::size_t tile = 0; tile < tiles; ++tile)
    if (!finite[tile]) fill_with_nan(coefficients + tile * rows.width, 0, 1, rows.width);
}

void forward_here(const Columns& columns, const Rows& rows, const float* values, std::size_t stride, std::size_t tiles,
                  float* coefficients) {
  if (tiles == 0) return;
  if (columns.height == 1) {
    for (std::size_t tile = 0; tile < tiles; tile += kSide) {
      const std::size_t at = tile * rows.width;
      forward_rows(rows, values + at, std::min(kSide, tiles - tile), coefficients + at);
    }
    return;
  }
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    forward_tile(columns, rows, values + tile * rows.width, stride, coefficients + tile * columns.height * rows.width);
  }
}

// Rows of a tile that have coefficients, after the transform of these rows.
struct UsedRows {
  alignas(64) double values[kSide * kSide];  // one row after the other
  std::size_t numbers[kSide];                // which row of the tile
  std::size_t count = 0;
};

// One row: four vectors of columns at a time, so that the sums stay in registers. cosines: rows kSide apart.
HWY_INLINE void invert_row(std::span<const Coefficient> coefficients, std::size_t begin_of_row, const double* integers,
                           const double* cosines, std::size_t width, double* out) {
  const D d;
  constexpr std::size_t kAtOnce = 4;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t column = 0; column < width; column += kAtOnce * lanes) {
    V sums[kAtOnce];
    for (V& sum : sums) sum = hn::Zero(d);
    for (std::size_t i = 0; i < coefficients.size(); ++i) {
      const double* const row = cosines + (coefficients[i].place - begin_of_row) * kSide + column;
      const V value = hn::Set(d, integers[i]);
      for (std::size_t v = 0; v < kAtOnce; ++v) {
        if (column + v * lanes < kSide) sums[v] = hn::MulAdd(value, hn::LoadU(d, row + v * lanes), sums[v]);
      }
    }
    for (std::size_t v = 0; v < kAtOnce; ++v)
      if (column + v * lanes < kSide) hn::Store(sums[v], d, out + column + v * lanes);
  }
}

// The rows of one parity with coefficients.
void invert_rows(std::span<const Coefficient> coefficients, double scale, const double* cosines, std::size_t width,
                 UsedRows& even, UsedRows& odd) {
  alignas(64) double integers[kSide];
  for (std::size_t begin = 0; begin < coefficients.size();) {
    const std::size_t row = coefficients[begin].place / width;
    std::size_t end = begin;
    for (; end < coefficients.size() && coefficients[end].place / width == row; ++end)
      integers[end - begin] = std::rint(static_cast<double>(coefficients[end].value) * scale);
    UsedRows& rows = row % 2 == 0 ? even : odd;
    invert_row(coefficients.subspan(begin, end - begin), row * width, integers, cosines, width,
               rows.values + rows.count * kSide);
    rows.numbers[rows.count++] = row;
    begin = end;
  }
}

// Elements from `column` on of a row; nothing behind its end.
HWY_INLINE void store_at(V sums, V scale, float* row, std::size_t column, std::size_t width) {
  const F f;
  const std::size_t lanes = hn::Lanes(D());
  const auto rounded = narrow_all(hn::Mul(sums, scale));
  if (column + lanes <= width) return hn::StoreU(rounded, f, row + column);
  if (column >= width) return;
  alignas(64) float part[kMostLanes];
  hn::StoreU(rounded, f, part);
  std::memcpy(row + column, part, (width - column) * sizeof(float));
}

// The columns: results i and height - 1 - i have equal sums over even rows, and opposite sums over odd rows.
void invert_columns(const UsedRows& even, const UsedRows& odd, const double* cosines, std::size_t height,
                    std::size_t width, double scale_of_result, float* values, std::size_t stride) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const V scale = hn::Set(d, scale_of_result);
  const auto factor_in = [cosines](const UsedRows& rows) {
    return [cosines, &rows](std::size_t i, std::size_t row) { return cosines[rows.numbers[row] * kSide + i]; };
  };
  alignas(64) double sums[kHalf * 2 * kMostLanes];  // over even rows
  for (std::size_t column = 0; column < width; column += 2 * lanes) {
    const std::size_t half = (height + 1) / 2;
    all_sums(half, even.count, even.values + column, kSide, factor_in(even), [&](std::size_t i, V sum0, V sum1) {
      hn::Store(sum0, d, sums + i * 2 * lanes);
      hn::Store(sum1, d, sums + i * 2 * lanes + lanes);
    });
    all_sums(half, odd.count, odd.values + column, kSide, factor_in(odd), [&](std::size_t i, V odd0, V odd1) {
      const V even0 = hn::Load(d, sums + i * 2 * lanes);
      const V even1 = hn::Load(d, sums + i * 2 * lanes + lanes);
      float* const row = values + i * stride;
      store_at(hn::Add(even0, odd0), scale, row, column, width);
      store_at(hn::Add(even1, odd1), scale, row, column + lanes, width);
      if (height - 1 - i == i) return;
      float* const other = values + (height - 1 - i) * stride;
      store_at(hn::Sub(even0, odd0), scale, other, column, width);
      store_at(hn::Sub(even1, odd1), scale, other, column + lanes, width);
    });
  }
}

void backward_here(std::span<const Coefficient> coefficients, const double* of_rows, const double* of_columns,
                   std::size_t height, std::size_t width, float* values, std::size_t stride) {
  std::uint32_t largest_bits = 0;
  for (const Coefficient& one : coefficients)
    largest_bits = std::max(largest_bits, std::bit_cast<std::uint32_t>(one.value) & 0x7fff'ffffU);
  const auto largest = std::bit_cast<float>(largest_bits);
  if (!std::isfinite(largest)) return fill_with_nan(values, stride, height, width);
  const int shift = shift_of(largest);
  UsedRows even;
  UsedRows odd;
  invert_rows(coefficients, power(shift), of_columns, width, even, odd);
  invert_columns(even, odd, of_rows, height, width, power(-shift - 2 * kCosineBits), values, stride);
}

}  // namespace
}  // namespace lockstep::training::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::training {
namespace {

HWY_EXPORT(forward_here);
HWY_EXPORT(backward_here);

// A matrix in rows of kSide, zeros behind.
std::vector<double> padded(const std::vector<std::int32_t>& matrix, std::size_t count) {
  std::vector<double> out(kSide * kSide);
  for (std::size_t row = 0; row < count; ++row)
    std::copy_n(matrix.begin() + static_cast<std::ptrdiff_t>(row * count), count,
                out.begin() + static_cast<std::ptrdiff_t>(row * kSide));
  return out;
}

// The matrices of Columns. `cosines`: padded.
std::vector<double> stages_of(const std::vector<double>& cosines, std::size_t count) {
  std::vector<double> out;
  std::size_t step = 1;
  bool symmetric = true;
  while (symmetric && count > 1) {
    const std::size_t half = count / 2;
    for (std::size_t k = 0; k < half; ++k) {
      for (std::size_t x = 0; x < half; ++x) {
        const double* const odd = cosines.data() + (2 * k + 1) * step * kSide;
        const double* const even = cosines.data() + 2 * k * step * kSide;
        LOCKSTEP_ASSERT(odd[count - 1 - x] == -odd[x] && even[count - 1 - x] == even[x]);
        out.push_back(odd[x]);
      }
    }
    symmetric = count % 2 == 0;
    count -= half;
    step *= 2;
  }
  for (std::size_t k = 0; k < count; ++k)
    for (std::size_t x = 0; x < count; ++x) out.push_back(cosines[k * step * kSide + x]);
  return out;
}

// One of the matrices of Rows: of the cosines' odd rows (parity 1) or even rows (0).
std::vector<double> transposed_half(const std::vector<double>& cosines, std::size_t count, std::size_t parity) {
  std::vector<double> out(kHalf * kHalf);
  const std::size_t inputs = parity == 1 ? count / 2 : count - count / 2;
  for (std::size_t x = 0; x < inputs; ++x)
    for (std::size_t k = 0; k < inputs; ++k) out[x * kHalf + k] = cosines[(2 * k + parity) * kSide + x];
  return out;
}

}  // namespace

std::vector<std::int32_t> cosines(std::size_t count) {
  LOCKSTEP_ASSERT(count >= 1 && count <= kLongestSide);
  // Every entry lies 1e-6 or more beside the middle between two integers, so any library's cosine rounds to it.
  std::vector<std::int32_t> out;
  for (std::size_t u = 0; u < count; ++u) {
    const double root = std::sqrt((u == 0 ? 1.0 : 2.0) / static_cast<double>(count));
    for (std::size_t x = 0; x < count; ++x) {
      const auto quarters = static_cast<double>((2 * x + 1) * u % (4 * count));
      const double angle = std::numbers::pi * quarters / static_cast<double>(2 * count);
      out.push_back(static_cast<std::int32_t>(std::lround(root * std::cos(angle) * (1 << kCosineBits))));
    }
  }
  return out;
}

TileDct::TileDct(std::size_t height, std::size_t width)
    : height_(height),
      width_(width),
      by_rows_(padded(cosines(height), height)),
      by_columns_(padded(cosines(width), width)),
      stages_(stages_of(by_rows_, height)),
      odd_(transposed_half(by_columns_, width, 1)),
      even_(transposed_half(by_columns_, width, 0)) {}

void TileDct::forward(const float* values, std::size_t stride, std::size_t tiles, float* coefficients) const {
  const Columns columns{height_, stages_.data()};
  const Rows rows{width_, odd_.data(), even_.data()};
  HWY_DYNAMIC_DISPATCH(forward_here)(columns, rows, values, stride, tiles, coefficients);
}

void TileDct::backward(std::span<const Coefficient> coefficients, float* values, std::size_t stride) const {
  LOCKSTEP_ASSERT(coefficients.empty() || coefficients.back().place < size());
  HWY_DYNAMIC_DISPATCH(backward_here)
  (coefficients, by_rows_.data(), by_columns_.data(), height_, width_, values, stride);
}

}  // namespace lockstep::training
#endif  // HWY_ONCE
