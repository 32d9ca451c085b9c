// The scalar reference of the kernels of strategies that send few elements or few bits. Written for readability, not
// for speed; the kernels must produce the same bits. Philox has its own: philox.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/kernels/element.h"
#include "core/kernels/training/dct.h"
#include "core/kernels/training/sketch.h"

namespace lockstep::training::reference {

using Floats = std::vector<float>;

// ---- top_k.h ----

// The order of absolute values; a NaN comes after infinity.
inline std::uint32_t key_of(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fff'ffffU; }

// Ascending places of the largest elements.
inline std::vector<std::uint16_t> keep_largest(std::span<const float> chunk, std::size_t most) {
  std::vector<std::uint16_t> places(chunk.size());
  std::iota(places.begin(), places.end(), std::uint16_t{0});
  std::ranges::stable_sort(places, [&](auto a, auto b) { return key_of(chunk[a]) > key_of(chunk[b]); });
  places.resize(std::min(most, places.size()));
  std::erase_if(places, [&](auto place) { return key_of(chunk[place]) == 0; });
  std::ranges::sort(places);
  return places;
}

// ---- sketch.h ----

struct Hash {
  std::size_t bucket;  // among all
  bool changes_sign;
};

inline Hash hash_of(const SketchHash& hash, std::uint64_t element) {
  const std::uint64_t chunk = element / SketchHash::kChunk;
  const auto turn_low = static_cast<std::uint32_t>(hash.turn);
  const auto turn_high = static_cast<std::uint32_t>(hash.turn >> 32U);
  const auto words = philox({static_cast<std::uint32_t>(element / 8), turn_low, turn_high, 1}, hash.key);
  const std::uint32_t word = words[element % 8 / 2];
  const std::uint32_t half = element % 2 == 0 ? word & 0xffffU : word >> 16U;
  const bool whole = (chunk + 1) * SketchHash::kChunk <= hash.count;
  const std::size_t buckets = whole ? hash.each : hash.last;
  return {.bucket = chunk * hash.each + ((half >> 1U) * buckets >> 15U), .changes_sign = half % 2 == 1};
}

inline float with_sign(float value, bool changes) { return changes ? -value : value; }

inline Floats sketch(const SketchHash& hash, std::span<const float> values) {
  std::vector<double> sums(hash.buckets());
  for (std::uint64_t element = 0; element < values.size(); ++element) {
    const auto [bucket, changes] = hash_of(hash, element);
    sums[bucket] += with_sign(values[element], changes);
  }
  Floats out;
  for (const double sum : sums)
    out.push_back(std::isnan(sum) ? std::bit_cast<float>(kNanBits<float>) : static_cast<float>(sum));
  return out;
}

inline Floats unsketch(const SketchHash& hash, std::span<const float> buckets) {
  Floats out;
  for (std::uint64_t element = 0; element < hash.count; ++element) {
    const auto [bucket, changes] = hash_of(hash, element);
    out.push_back(with_sign(buckets[bucket], changes));
  }
  return out;
}

inline float direction(std::uint64_t element, std::array<std::uint32_t, 3> rest, PhiloxKey key, float slope) {
  const auto words = philox({static_cast<std::uint32_t>(element / 128), rest[0], rest[1], rest[2]}, key);
  return with_sign(slope, (words[element % 128 / 32] >> (element % 32) & 1U) == 0);
}

// ---- dct.h ----

// left * tile * right, where left has `height` rows and columns, and right has `width`; given by functions of row and
// column. In integers of 64 bits.
template <typename Left, typename Right>
Floats times_cosines(std::span<const float> tile, std::size_t height, std::size_t width, Left left, Right right) {
  float largest = 0;
  for (const float value : tile) {
    if (!std::isfinite(value)) return Floats(tile.size(), std::bit_cast<float>(kNanBits<float>));
    largest = std::max(largest, std::fabs(value));
  }
  int exponent = -149;  // elements are below 2^exponent
  if (largest > 0) (void)std::frexp(largest, &exponent);
  exponent = std::max(exponent, -149);
  std::vector<std::int64_t> integers;
  for (const float value : tile)
    integers.push_back(static_cast<std::int64_t>(std::nearbyint(std::ldexp(double{value}, 16 - exponent))));
  std::vector<std::int64_t> between;  // tile * right
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t column = 0; column < width; ++column) {
      std::int64_t sum = 0;
      for (std::size_t x = 0; x < width; ++x) sum += integers[y * width + x] * right(x, column);
      between.push_back(sum);
    }
  }
  Floats out;
  for (std::size_t row = 0; row < height; ++row) {
    for (std::size_t column = 0; column < width; ++column) {
      std::int64_t sum = 0;
      for (std::size_t y = 0; y < height; ++y) sum += left(row, y) * between[y * width + column];
      out.push_back(static_cast<float>(std::ldexp(static_cast<double>(sum), exponent - 16 - 30)));
    }
  }
  return out;
}

inline Floats dct(std::span<const float> tile, std::size_t height, std::size_t width) {
  const auto rows = cosines(height);
  const auto columns = cosines(width);
  return times_cosines(
      tile, height, width, [&](auto u, auto y) { return rows[u * height + y]; },
      [&](auto x, auto v) { return columns[v * width + x]; });
}

inline Floats inverse_dct(std::span<const float> tile, std::size_t height, std::size_t width) {
  const auto rows = cosines(height);
  const auto columns = cosines(width);
  return times_cosines(
      tile, height, width, [&](auto y, auto u) { return rows[u * height + y]; },
      [&](auto v, auto x) { return columns[v * width + x]; });
}

}  // namespace lockstep::training::reference
