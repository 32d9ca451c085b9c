// Each operation on one lane of a vector unit. The functions return the same bits as reference.h, with selects instead
// of branches, so that compilers turn loops over them into vector code.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>

#include "core/kernels/element.h"
#include "core/kernels/reference.h"

namespace lockstep::lanes {

template <std::floating_point T>
T quiet(T value) {
  return std::isnan(value) ? std::bit_cast<T>(kNanBits<T>) : value;
}

inline float widen_lane(BF16 value) { return widen(value); }

inline float widen_lane(F16 value) {
  constexpr std::int32_t kRebias = 112 << 23;   // difference of the exponent biases: 15 of f16, 127 of f32
  constexpr std::int32_t kNormal = 1 << 23;     // magnitude of the smallest normal number
  constexpr std::int32_t kInfinity = 31 << 23;  // magnitude of infinity; its exponent moves by another 112, to 255
  const std::uint32_t sign = (value.bits & 0x8000U) << 16U;
  const std::int32_t magnitude = (value.bits & 0x7fff) << 13;
  const std::int32_t normal = magnitude + kRebias + (magnitude < kInfinity ? 0 : kRebias);
  // A denormal gets the exponent of the smallest normal number, which is then subtracted: exact.
  const float denormal = std::bit_cast<float>(magnitude + kRebias + kNormal) - std::bit_cast<float>(kRebias + kNormal);
  const std::int32_t wide = magnitude < kNormal ? std::bit_cast<std::int32_t>(denormal) : normal;
  return std::bit_cast<float>(sign | static_cast<std::uint32_t>(wide));
}

template <SmallFloat T>
T narrow_lane(float value);

template <>
inline BF16 narrow_lane<BF16>(float value) {
  return {static_cast<std::uint16_t>(shift_to_nearest_even(std::bit_cast<std::uint32_t>(quiet(value)), 16U))};
}

template <>
inline F16 narrow_lane<F16>(float value) {
  constexpr std::int32_t kRebias = 112 << 23;
  constexpr std::int32_t kNormal = 113 << 23;    // 2^-14, the smallest normal number of f16
  constexpr std::int32_t kInfinity = 143 << 23;  // 2^16; numbers that are nearer to it than to 65504 round up to it
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto magnitude = static_cast<std::int32_t>(bits & 0x7fff'ffffU);
  const std::int32_t capped = magnitude < kInfinity ? magnitude : kInfinity;
  const std::uint32_t normal = shift_to_nearest_even(static_cast<std::uint32_t>(capped - kRebias), 13U);
  // The last bit of 0.5f is 2^-24, like that of f16's denormals: the addition rounds as narrow() does.
  const std::uint32_t denormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - (126U << 23U);
  const std::uint32_t number = magnitude < kNormal ? denormal : normal;                    // infinity for a NaN
  const std::uint32_t sign = std::isnan(value) ? kNanBits<F16> : (bits >> 16U) & 0x8000U;  // replaced by a NaN here
  return {static_cast<std::uint16_t>(sign | number)};
}

// An integer in the order of the numbers, with -0.0 before +0.0. Applying the function twice returns the bits.
template <SmallFloat T>
std::int16_t order_of(T value) {
  const auto bits = static_cast<std::int16_t>(value.bits);
  return static_cast<std::int16_t>(bits ^ ((bits >> 15) & 0x7fff));
}

template <SmallFloat T>
T of_order(std::int16_t order) {
  return {static_cast<std::uint16_t>(order ^ ((order >> 15) & 0x7fff))};
}

template <SmallFloat T>
T nan_if_either(T a, T b, T otherwise) {
  constexpr std::uint16_t kInfinity = std::same_as<T, F16> ? 0x7c00U : 0x7f80U;
  const auto size_a = static_cast<std::uint16_t>(a.bits & 0x7fffU);
  const auto size_b = static_cast<std::uint16_t>(b.bits & 0x7fffU);
  const std::uint16_t larger = size_a < size_b ? size_b : size_a;
  return {larger > kInfinity ? kNanBits<T> : otherwise.bits};
}

template <std::floating_point T>
T nan_if_either(T a, T b, T otherwise) {
  return std::isunordered(a, b) ? std::bit_cast<T>(kNanBits<T>) : otherwise;
}

struct Sum {
  template <std::integral T>
  static T of(T a, T b) {
    return reference::sum(a, b);
  }
  template <std::floating_point T>
  static T of(T a, T b) {
    return quiet(a + b);
  }
  template <SmallFloat T>
  static T of(T a, T b) {
    return narrow_lane<T>(widen_lane(a) + widen_lane(b));
  }
};

struct Prod {
  template <std::integral T>
  static T of(T a, T b) {
    return reference::prod(a, b);
  }
  template <std::floating_point T>
  static T of(T a, T b) {
    return quiet(a * b);
  }
  template <SmallFloat T>
  static T of(T a, T b) {
    return narrow_lane<T>(widen_lane(a) * widen_lane(b));
  }
};

struct Min {
  template <std::integral T>
  static T of(T a, T b) {
    return reference::min(a, b);
  }
  template <std::floating_point T>
  static T of(T a, T b) {
    // For equal numbers `first` is b and `second` is a; the bits of -0.0 and +0.0 differ in the sign.
    const T first = a < b ? a : b;
    const T second = b < a ? b : a;
    return nan_if_either(a, b, std::bit_cast<T>(std::bit_cast<BitsOf<T>>(first) | std::bit_cast<BitsOf<T>>(second)));
  }
  template <SmallFloat T>
  static T of(T a, T b) {
    return nan_if_either(a, b, of_order<T>(reference::min(order_of(a), order_of(b))));
  }
};

struct Max {
  template <std::integral T>
  static T of(T a, T b) {
    return reference::max(a, b);
  }
  template <std::floating_point T>
  static T of(T a, T b) {
    const T first = a > b ? a : b;
    const T second = b > a ? b : a;
    return nan_if_either(a, b, std::bit_cast<T>(std::bit_cast<BitsOf<T>>(first) & std::bit_cast<BitsOf<T>>(second)));
  }
  template <SmallFloat T>
  static T of(T a, T b) {
    return nan_if_either(a, b, of_order<T>(reference::max(order_of(a), order_of(b))));
  }
};

// ---- bitwise operations: integers; booleans, whose values are 0 and 1 ----

inline unsigned truth(Bool value) { return value.byte == 0 ? 0 : 1; }
inline Bool bool_of(unsigned truth) { return {static_cast<std::uint8_t>(truth)}; }

struct BitAnd {
  template <std::integral T>
  static T of(T a, T b) {
    return reference::bit_and(a, b);
  }
  static Bool of(Bool a, Bool b) { return bool_of(truth(a) & truth(b)); }
};

struct BitOr {
  template <std::integral T>
  static T of(T a, T b) {
    return reference::bit_or(a, b);
  }
  static Bool of(Bool a, Bool b) { return bool_of(truth(a) | truth(b)); }
};

struct BitXor {
  template <std::integral T>
  static T of(T a, T b) {
    return reference::bit_xor(a, b);
  }
  static Bool of(Bool a, Bool b) { return bool_of(truth(a) ^ truth(b)); }
};

}  // namespace lockstep::lanes
