// Sums of float32 that are rounded once, to float64: their order does not matter.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lockstep::training {

// The exact sum of at most 2^40 values of at least 0. A NaN makes it NaN; otherwise, an infinity makes it infinite.
class ExactSum {
 public:
  void add(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t exponent = (bits >> 23U) & 0xffU;
    const std::uint32_t fraction = bits & 0x7f'ffffU;
    // Denormals have the unit of the smallest normal numbers.
    fractions_[exponent] += exponent == 0 ? fraction : fraction | 0x80'0000U;
    if (exponent == 0xffU && fraction != 0) has_nan_ = true;
  }

  // Rounded to nearest, ties to even.
  [[nodiscard]] double rounded() const {
    if (has_nan_) return std::numeric_limits<double>::quiet_NaN();
    if (fractions_[0xff] != 0) return std::numeric_limits<double>::infinity();
    const Limbs limbs = in_units();
    std::size_t top = kLimbs;
    while (top > 0 && limbs[top - 1] == 0) --top;
    if (top == 0) return 0.0;
    // The highest 64 bits of the sum; the lowest of them says whether any bit below is set.
    const std::uint64_t highest = limbs[top - 1];
    const auto zeros = static_cast<unsigned>(std::countl_zero(highest));
    std::uint64_t head = highest << zeros;
    bool rest = false;
    if (top > 1) {
      if (zeros != 0) head |= limbs[top - 2] >> (64U - zeros);
      rest = (zeros == 0 ? limbs[top - 2] : limbs[top - 2] << zeros) != 0;
      for (std::size_t limb = 0; limb + 2 < top; ++limb) rest = rest || limbs[limb] != 0;
    }
    std::uint64_t digits = head >> 11U;  // 53 bits
    const std::uint64_t below = (head & 0x7ffU) << 1U | (rest ? 1U : 0U);
    if (below > 0x800U || (below == 0x800U && (digits & 1U) != 0)) ++digits;
    const int exponent = static_cast<int>(64 * (top - 1)) - static_cast<int>(zeros) + 11 + kUnit;
    return std::ldexp(static_cast<double>(digits), exponent);
  }

 private:
  static constexpr std::size_t kLimbs = 6;
  static constexpr int kUnit = -149;  // exponent of the smallest denormal
  using Limbs = std::array<std::uint64_t, kLimbs>;

  // The sum as an integer, in units of the smallest denormal.
  [[nodiscard]] Limbs in_units() const {
    Limbs limbs{};
    for (std::size_t exponent = 0; exponent < 0xff; ++exponent) {
      const std::uint64_t value = fractions_[exponent];
      if (value == 0) continue;
      const std::size_t shift = exponent == 0 ? 0 : exponent - 1;
      const std::size_t in_limb = shift % 64;
      add_at(limbs, shift / 64, value << in_limb);
      if (in_limb != 0) add_at(limbs, shift / 64 + 1, value >> (64U - in_limb));
    }
    return limbs;
  }

  static void add_at(Limbs& limbs, std::size_t limb, std::uint64_t value) {
    while (value != 0 && limb < kLimbs) {
      limbs[limb] += value;
      value = limbs[limb] < value ? 1 : 0;  // the carry
      ++limb;
    }
  }

  std::array<std::uint64_t, 256> fractions_{};  // by exponent
  bool has_nan_ = false;
};

}  // namespace lockstep::training
