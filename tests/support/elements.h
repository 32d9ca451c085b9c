// Element values that reveal errors: limits, signed zeros, denormals, infinities and NaNs of a type, among random bits.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <vector>

#include "core/base/rng.h"
#include "core/kernels/element.h"
#include "core/kernels/reference.h"

namespace lockstep::test {

using Bytes = std::vector<std::byte>;

inline constexpr DataType kAllTypes[] = {
    DataType::kU8,  DataType::kI8,  DataType::kU16,  DataType::kI16, DataType::kU32, DataType::kI32, DataType::kU64,
    DataType::kI64, DataType::kF16, DataType::kBF16, DataType::kF32, DataType::kF64, DataType::kBool};
inline constexpr ReduceOp kAllOps[] = {ReduceOp::kSum, ReduceOp::kAvg,    ReduceOp::kProd,  ReduceOp::kMin,
                                       ReduceOp::kMax, ReduceOp::kBitAnd, ReduceOp::kBitOr, ReduceOp::kBitXor};

// The operations that this type has, and the types that have an average.
inline std::vector<ReduceOp> ops_of(DataType type) {
  std::vector<ReduceOp> ops;
  std::ranges::copy_if(kAllOps, std::back_inserter(ops), [&](ReduceOp op) { return is_defined(type, op); });
  return ops;
}
inline std::vector<DataType> types_with_average() {
  std::vector<DataType> types;
  std::ranges::copy_if(kAllTypes, std::back_inserter(types),
                       [](DataType type) { return is_defined(type, ReduceOp::kAvg); });
  return types;
}

// Bit patterns, without the sign, of a floating-point type of `width` bits with `fraction` bits below the exponent.
constexpr std::array<std::uint64_t, 10> special_magnitudes(unsigned width, unsigned fraction) {
  const std::uint64_t infinity = ((std::uint64_t{1} << (width - 1U)) - 1U) >> fraction << fraction;
  const std::uint64_t one = infinity / 2U >> fraction << fraction;
  const std::uint64_t least_normal = std::uint64_t{1} << fraction;
  const std::uint64_t most = infinity - 1U;
  const std::uint64_t signaling_nan = infinity + 1U;
  const std::uint64_t quiet_nan = infinity + least_normal / 2U + 5U;  // with a payload
  return {0, 1, least_normal - 1U, least_normal, one, one + 1U, most, infinity, signaling_nan, quiet_nan};
}

// An element made from random bits; often a special value.
template <typename T>
T hostile_element(std::uint64_t random) {
  const auto choice = static_cast<std::size_t>(below(mix64(random), 20));
  std::uint64_t bits = random;
  if constexpr (std::same_as<T, Bool>) {
    return {static_cast<std::uint8_t>(choice < 16 ? choice % 2 : bits)};
  } else if constexpr (std::integral<T>) {
    constexpr T kSpecial[] = {
        0, 1, 2, static_cast<T>(-1), std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
    return choice < std::size(kSpecial) ? kSpecial[choice] : static_cast<T>(bits);
  } else {
    constexpr unsigned kFraction = std::same_as<T, F16> ? 10 : std::same_as<T, BF16> ? 7 : sizeof(T) == 4 ? 23 : 52;
    constexpr auto kSpecial = special_magnitudes(8 * sizeof(T), kFraction);
    constexpr std::uint64_t kSign = std::uint64_t{1} << (8 * sizeof(T) - 1);
    if (choice < kSpecial.size()) bits = kSpecial[choice] | (random & kSign);
    return std::bit_cast<T>(static_cast<BitsOf<T>>(bits));
  }
}

inline Bytes hostile_elements(DataType type, std::size_t count, std::uint64_t seed) {
  Bytes bytes(count * size_of(type));
  with_element(type, [&]<typename T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < count; ++i) reference::store(bytes.data(), i, hostile_element<T>(draw(seed, 0, i)));
  });
  return bytes;
}

}  // namespace lockstep::test
