// int8-codebook: a code is the index of a bin, and the means of the values in all bins follow the codes. Sums are sums
// of integers, so their order does not matter.
#pragma once

#include <array>
#include <cmath>

#include "core/kernels/formats/block.h"

namespace lockstep::formats {

// A sum of up to 4096 integers of 31 bits, stored above their count of 13 bits: one addition updates both.
class SumAndCount {
 public:
  void add(std::int32_t value) { packed_ += (std::int64_t{value} << kCountBits) + 1; }
  SumAndCount& operator+=(SumAndCount other) {
    packed_ += other.packed_;
    return *this;
  }
  // 0 for an empty bin.
  [[nodiscard]] double mean() const {
    const std::int64_t count = packed_ & ((1 << kCountBits) - 1);
    return static_cast<double>(packed_ >> kCountBits) / static_cast<double>(std::max<std::int64_t>(count, 1));
  }

 private:
  static constexpr int kCountBits = 13;
  std::int64_t packed_ = 0;
};

struct Int8Codebook {
  static constexpr WireFormat kFormat = WireFormat::kInt8Codebook;
  static constexpr std::size_t kBins = 256;

  LOCKSTEP_INLINE static void encode(std::byte* encoded, Block block) {
    if (block.largest < std::bit_cast<std::int32_t>(0x1p-98F)) {
      for (std::size_t i = 0; i < block.count; ++i) store(encoded, i, std::uint8_t{128});
      for (std::size_t bin = 0; bin < kBins; ++bin) store(encoded + block.count, bin, 0.0F);
      return;
    }
    const std::int32_t exponent = (block.largest >> 23) - 126;  // largest < 2^exponent
    const auto units = std::bit_cast<float>((127 + 30 - exponent) << 23);
    const auto unit = std::bit_cast<double>(std::int64_t{1023 - 30 + exponent} << 52);

    std::int64_t squares = 0;  // in units that are coarser, to avoid overflow
    for (std::size_t i = 0; i < block.count; ++i) {
      const std::int32_t coarse = in_units(block[i], units) >> 8;
      squares += std::int64_t{coarse} * coarse;
    }
    const auto freedom = static_cast<double>(block.count > 1 ? block.count - 1 : 1);
    const double bin_units = 6.0 * std::sqrt(static_cast<double>(squares) / freedom);
    const float bins_per_unit = units * static_cast<float>(1.0 / bin_units);
    LOCKSTEP_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < block.count; ++i) {
      const std::int32_t bin = nearest_integer(block[i] * bins_per_unit) + 128;
      store(encoded, i, static_cast<std::uint8_t>(std::min(std::max(bin, 0), 255)));
    }
    store_means(encoded, block, units, unit);
  }

  template <typename Sink>
  LOCKSTEP_INLINE static bool decode(const std::byte* encoded, std::size_t count, Sink sink) {
    const std::byte* means = encoded + count;
    if (largest_magnitude_bits(means, kBins) >= kInfinityBits) return false;
    LOCKSTEP_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) sink(i, load<float>(means, load<std::uint8_t>(encoded, i)));
    return true;
  }

 private:
  static std::int32_t in_units(float value, float units) { return static_cast<std::int32_t>(value * units); }

  // Neighbouring elements often fall into the same bin, and an addition has to wait for the previous addition to the
  // same memory. So each bin has several sums.
  LOCKSTEP_INLINE static void store_means(std::byte* encoded, Block block, float units, double unit) {
    constexpr std::size_t kPlaces = 4;
    std::array<std::array<SumAndCount, kBins>, kPlaces> sums{};
    for (std::size_t i = 0; i < block.count; ++i) {
      sums[i % kPlaces][load<std::uint8_t>(encoded, i)].add(in_units(block[i], units));
    }
    for (std::size_t bin = 0; bin < kBins; ++bin) {
      SumAndCount sum;
      for (const auto& place : sums) sum += place[bin];
      store(encoded + block.count, bin, static_cast<float>(sum.mean() * unit));
    }
  }
};

}  // namespace lockstep::formats
