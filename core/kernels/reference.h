// The scalar reference: the result of each operation for one element. This file is written for readability, not for
// speed; the loops of reduce.cc must produce the same bits.
//
//   integers    sum and prod wrap modulo 2^bits. An average is the wrapped sum divided by the number of contributors,
//               rounded toward zero.
//               The bitwise operations act on each bit.
//   bool        sum, max and bor are the logical or; prod, min and band are the logical and; bxor is true if one of
//               both is true. Every byte other than 0 means true; a result is 0 or 1.
//   f32, f64    IEEE 754, to nearest even, denormals kept. An average is the sum, then one division by the count.
//   f16, bf16   each operation widens to f32, operates, and rounds to nearest even (f16 overflows to infinity).
//   all floats  a NaN result is the canonical one (element.h): payloads and signs of NaNs differ between CPUs.
//               min and max: NaN if either is NaN; -0.0 < +0.0.
//
// Floating-point types need the default environment; see float_environment.h.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "core/kernels/element.h"

namespace lockstep::reference {

template <std::floating_point T>
constexpr T nan() {
  return std::bit_cast<T>(kNanBits<T>);
}

template <std::floating_point T>
constexpr T canonical(T value) {
  return std::isnan(value) ? nan<T>() : value;
}

// Unsigned, and not narrower than `unsigned`: u16 * u16 would be promoted to int and could overflow.
template <std::integral T>
using Wrapping = std::common_type_t<std::make_unsigned_t<T>, unsigned>;

template <std::integral T>
constexpr T sum(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <std::floating_point T>
constexpr T sum(T a, T b) {
  return canonical(a + b);
}

template <std::integral T>
constexpr T prod(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}
template <std::floating_point T>
constexpr T prod(T a, T b) {
  return canonical(a * b);
}

template <std::integral T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <std::floating_point T>
constexpr T min(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return nan<T>();
  // -0.0 if either is -0.0
  if (a == b) return std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) | std::bit_cast<BitsOf<T>>(b));
  return a < b ? a : b;
}

template <std::integral T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
template <std::floating_point T>
constexpr T max(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return nan<T>();
  // +0.0 if either is +0.0
  if (a == b) return std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) & std::bit_cast<BitsOf<T>>(b));
  return a < b ? b : a;
}

template <std::integral T>
constexpr T bit_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <std::integral T>
constexpr T bit_or(T a, T b) {
  return static_cast<T>(a | b);
}
template <std::integral T>
constexpr T bit_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}

// is_defined() excludes them.
template <std::floating_point T>
[[noreturn]] T bit_and(T, T) {
  LOCKSTEP_UNREACHABLE();
}
template <std::floating_point T>
[[noreturn]] T bit_or(T, T) {
  LOCKSTEP_UNREACHABLE();
}
template <std::floating_point T>
[[noreturn]] T bit_xor(T, T) {
  LOCKSTEP_UNREACHABLE();
}

// a op b; for an average, the sum of both.
template <typename T>
constexpr T fold_one(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: return sum(a, b);
    case ReduceOp::kProd: return prod(a, b);
    case ReduceOp::kMin: return min(a, b);
    case ReduceOp::kMax: return max(a, b);
    case ReduceOp::kBitAnd: return bit_and(a, b);
    case ReduceOp::kBitOr: return bit_or(a, b);
    case ReduceOp::kBitXor: return bit_xor(a, b);
  }
  LOCKSTEP_UNREACHABLE();
}
constexpr Bool fold_one(ReduceOp op, Bool a, Bool b) {
  const bool x = a.byte != 0;
  const bool y = b.byte != 0;
  const auto of = [](bool value) { return Bool{static_cast<std::uint8_t>(value ? 1 : 0)}; };
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMax:
    case ReduceOp::kBitOr: return of(x || y);
    case ReduceOp::kProd:
    case ReduceOp::kMin:
    case ReduceOp::kBitAnd: return of(x && y);
    case ReduceOp::kBitXor: return of(x != y);
    case ReduceOp::kAvg: break;  // is_defined()
  }
  LOCKSTEP_UNREACHABLE();
}
template <SmallFloat T>
constexpr T fold_one(ReduceOp op, T a, T b) {
  return narrow<T>(fold_one(op, widen(a), widen(b)));
}

// Divides a sum to get an average. contributors >= 1.
template <std::integral T>
constexpr T divide_one(T total, std::uint32_t contributors) {
  // Can represent every T and every count.
  using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  return static_cast<T>(static_cast<Wide>(total) / static_cast<Wide>(contributors));
}
template <std::floating_point T>
constexpr T divide_one(T total, std::uint32_t contributors) {
  return canonical(total / static_cast<T>(contributors));
}
template <SmallFloat T>
constexpr T divide_one(T total, std::uint32_t contributors) {
  return narrow<T>(divide_one(widen(total), contributors));
}
inline Bool divide_one(Bool, std::uint32_t) { LOCKSTEP_UNREACHABLE(); }  // is_defined() excludes it

template <typename T>
T load(const std::byte* values, std::size_t index) {
  T value;
  std::memcpy(&value, values + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* values, std::size_t index, T value) {
  std::memcpy(values + index * sizeof(T), &value, sizeof(T));
}

// References of fold() and divide() in reduce.h, one element after the other.
inline void fold(DataType type, ReduceOp op, std::span<std::byte> into, std::span<const std::byte> incoming,
                 std::span<const std::byte> own) {
  with_element(type, [&]<typename T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < into.size() / sizeof(T); ++i) {
      store(into.data(), i, fold_one(op, load<T>(incoming.data(), i), load<T>(own.data(), i)));
    }
  });
}

inline void divide(DataType type, std::span<std::byte> values, std::uint32_t contributors) {
  with_element(type, [&]<typename T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < values.size() / sizeof(T); ++i) {
      store(values.data(), i, divide_one(load<T>(values.data(), i), contributors));
    }
  });
}

}  // namespace lockstep::reference
