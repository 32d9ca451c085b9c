// The elements of tensors as C++ types: booleans, the two 16-bit floating formats, their bits and canonical NaNs.
// Conversions use integer arithmetic: exact, constexpr, equal on every machine and in every floating-point environment.
#pragma once

#include <bit>
#include <cfloat>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/base/assert.h"
#include "core/base/data_type.h"

namespace lockstep {

static_assert(std::endian::native == std::endian::little, "elements travel as they lie in memory");
static_assert(std::numeric_limits<float>::is_iec559 && std::numeric_limits<double>::is_iec559);
static_assert(FLT_EVAL_METHOD == 0, "every operation must round to its own type (on x86: SSE2, not x87)");

// A boolean of one byte. Every byte other than 0 means true; results are 0 or 1.
struct Bool {
  std::uint8_t byte = 0;
  constexpr bool operator==(const Bool&) const = default;  // compares bytes
};

// IEEE 754 binary16: 1 bit of sign, 5 of exponent, 10 of fraction.
struct F16 {
  std::uint16_t bits = 0;
  constexpr bool operator==(const F16&) const = default;  // compares bits, not numbers
};

// bfloat16: the upper half of a binary32.
struct BF16 {
  std::uint16_t bits = 0;
  constexpr bool operator==(const BF16&) const = default;  // compares bits, not numbers
};

template <typename T>
concept SmallFloat = std::same_as<T, F16> || std::same_as<T, BF16>;

// The unsigned integer as wide as T.
template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 1, std::uint8_t,
                                  std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                                     std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

// The only NaN that a result may contain: quiet, positive, without a payload. (Integers have none.)
template <typename T>
inline constexpr BitsOf<T> kNanBits = 0;
template <>
inline constexpr std::uint16_t kNanBits<F16> = 0x7e00U;
template <>
inline constexpr std::uint16_t kNanBits<BF16> = 0x7fc0U;
template <>
inline constexpr std::uint32_t kNanBits<float> = 0x7fc0'0000U;
template <>
inline constexpr std::uint64_t kNanBits<double> = 0x7ff8'0000'0000'0000U;

// value / 2^shift, rounded to nearest, ties to even. 1 <= shift <= 31; no carry out of 32 bits.
constexpr std::uint32_t shift_to_nearest_even(std::uint32_t value, std::uint32_t shift) {
  const std::uint32_t odd = (value >> shift) & 1U;
  return (value + (1U << (shift - 1U)) - 1U + odd) >> shift;
}

constexpr float widen(BF16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16U); }

constexpr float widen(F16 value) {
  const std::uint32_t sign = (value.bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (value.bits >> 10U) & 0x1fU;
  const std::uint32_t fraction = value.bits & 0x3ffU;
  const auto with_sign = [sign](std::uint32_t magnitude) { return std::bit_cast<float>(sign | magnitude); };
  if (exponent == 31U) return with_sign(0x7f80'0000U | (fraction << 13U));               // infinity or NaN
  if (exponent != 0U) return with_sign(((exponent + 112U) << 23U) | (fraction << 13U));  // the bias: 15 -> 127
  if (fraction == 0U) return with_sign(0U);
  // A denormal is fraction * 2^-24. The highest set bit of the fraction, 2^top, becomes the implicit bit.
  const auto top = static_cast<std::uint32_t>(std::bit_width(fraction)) - 1U;
  return with_sign(((top + 103U) << 23U) | ((fraction << (23U - top)) & 0x7f'ffffU));
}

// Rounds to nearest even. A number beyond the largest finite one becomes infinity; any NaN becomes the canonical NaN.
template <SmallFloat T>
constexpr T narrow(float value);

template <>
constexpr BF16 narrow<BF16>(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fff'ffffU) > 0x7f80'0000U) return {kNanBits<BF16>};
  return {static_cast<std::uint16_t>(shift_to_nearest_even(bits, 16U))};  // a carry into the exponent is correct
}

template <>
constexpr F16 narrow<F16>(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fff'ffffU;
  const auto with_sign = [sign](std::uint32_t half) { return F16{static_cast<std::uint16_t>(sign | half)}; };
  if (magnitude > 0x7f80'0000U) return {kNanBits<F16>};
  if (magnitude >= 0x477f'f000U) return with_sign(0x7c00U);  // from 65520 on, 65536 is nearer than 65504
  if (magnitude >= 0x3880'0000U) return with_sign(shift_to_nearest_even(magnitude - (112U << 23U), 13U));  // normal
  const std::uint32_t exponent = magnitude >> 23U;
  if (exponent < 102U) return with_sign(0U);  // below 2^-25, half of the smallest denormal
  return with_sign(shift_to_nearest_even((magnitude & 0x7f'ffffU) | 0x80'0000U, 126U - exponent));
}

// Calls f(std::type_identity<T>{}) with the C++ type of `type`.
template <typename F>
constexpr decltype(auto) with_element(DataType type, F&& f) {
  switch (type) {
    case DataType::kU8: return f(std::type_identity<std::uint8_t>{});
    case DataType::kI8: return f(std::type_identity<std::int8_t>{});
    case DataType::kU16: return f(std::type_identity<std::uint16_t>{});
    case DataType::kI16: return f(std::type_identity<std::int16_t>{});
    case DataType::kU32: return f(std::type_identity<std::uint32_t>{});
    case DataType::kI32: return f(std::type_identity<std::int32_t>{});
    case DataType::kU64: return f(std::type_identity<std::uint64_t>{});
    case DataType::kI64: return f(std::type_identity<std::int64_t>{});
    case DataType::kF16: return f(std::type_identity<F16>{});
    case DataType::kBF16: return f(std::type_identity<BF16>{});
    case DataType::kF32: return f(std::type_identity<float>{});
    case DataType::kF64: return f(std::type_identity<double>{});
    case DataType::kBool: return f(std::type_identity<Bool>{});
  }
  LOCKSTEP_UNREACHABLE();
}

}  // namespace lockstep
