// Loops without branches, so that compilers turn them into vector code (GCC: -O3 -fno-trapping-math, see CMakeLists.txt).
// What each expression means is said in reference.h; here it is said in the words of vector units: selects, not ifs.
#include "core/kernels/reduce.h"

#include <bit>
#include <cmath>
#include <concepts>
#include <functional>

#include "core/base/assert.h"
#include "core/kernels/element.h"
#include "core/kernels/reference.h"

// No iteration reads what another one writes. The compiler cannot see that when `into` is one of the inputs.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"  // at -O1 it is content with scalar code
#define LOCKSTEP_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define LOCKSTEP_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#else
#define LOCKSTEP_INDEPENDENT_ITERATIONS
#endif

namespace lockstep {
namespace {

using reference::load;
using reference::store;

template <std::floating_point T>
T quiet(T value) {
  return std::isnan(value) ? std::bit_cast<T>(kNanBits<T>) : value;
}

float widen_lane(BF16 value) { return widen(value); }

float widen_lane(F16 value) {
  constexpr std::int32_t kRebias = 112 << 23;   // of an exponent, from f16's 15 to f32's 127
  constexpr std::int32_t kNormal = 1 << 23;     // of magnitudes: the smallest normal number
  constexpr std::int32_t kInfinity = 31 << 23;  // and infinity, which goes 112 further, to 255
  const std::uint32_t sign = (value.bits & 0x8000U) << 16U;
  const std::int32_t magnitude = (value.bits & 0x7fff) << 13;
  const std::int32_t normal = magnitude + kRebias + (magnitude < kInfinity ? 0 : kRebias);
  // A denormal is given the exponent of the smallest normal number, which is then taken away: exact.
  const float denormal = std::bit_cast<float>(magnitude + kRebias + kNormal) - std::bit_cast<float>(kRebias + kNormal);
  const std::int32_t wide = magnitude < kNormal ? std::bit_cast<std::int32_t>(denormal) : normal;
  return std::bit_cast<float>(sign | static_cast<std::uint32_t>(wide));
}

template <SmallFloat T>
T narrow_lane(float value);

template <>
BF16 narrow_lane<BF16>(float value) {
  return {static_cast<std::uint16_t>(shift_to_nearest_even(std::bit_cast<std::uint32_t>(quiet(value)), 16U))};
}

template <>
F16 narrow_lane<F16>(float value) {
  constexpr std::int32_t kRebias = 112 << 23;
  constexpr std::int32_t kNormal = 113 << 23;    // 2^-14, f16's smallest normal number
  constexpr std::int32_t kInfinity = 143 << 23;  // 2^16; what is nearer to it than to 65504 is rounded up to it
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto magnitude = static_cast<std::int32_t>(bits & 0x7fff'ffffU);
  const std::int32_t capped = magnitude < kInfinity ? magnitude : kInfinity;
  const std::uint32_t normal = shift_to_nearest_even(static_cast<std::uint32_t>(capped - kRebias), 13U);
  // 0.5f has its last bit at 2^-24, where f16's denormals have theirs: the addition rounds as narrow() does.
  const std::uint32_t denormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - (126U << 23U);
  const std::uint32_t number = magnitude < kNormal ? denormal : normal;                    // of a NaN: infinity
  const std::uint32_t sign = std::isnan(value) ? kNanBits<F16> : (bits >> 16U) & 0x8000U;  // and with this a NaN
  return {static_cast<std::uint16_t>(sign | number)};
}

// Integers that are ordered as the numbers are, -0.0 before +0.0. Applied twice it gives back the bits.
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
    // Of equal numbers the first choice is b, the second a, and -0.0 has one bit more than +0.0.
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

template <typename Op, typename T>
void fold_loop(std::byte* into, const std::byte* incoming, const std::byte* own, std::size_t count) {
  LOCKSTEP_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i) store(into, i, Op::of(load<T>(incoming, i), load<T>(own, i)));
}

template <std::integral T>
void divide_loop(std::byte* values, std::size_t count, std::uint32_t contributors) {
  for (std::size_t i = 0; i < count; ++i) store(values, i, reference::divide_one(load<T>(values, i), contributors));
}

template <std::floating_point T>
void divide_loop(std::byte* values, std::size_t count, std::uint32_t contributors) {
  const auto divisor = static_cast<T>(contributors);
  for (std::size_t i = 0; i < count; ++i) store(values, i, quiet(load<T>(values, i) / divisor));
}

template <SmallFloat T>
void divide_loop(std::byte* values, std::size_t count, std::uint32_t contributors) {
  const auto divisor = static_cast<float>(contributors);
  for (std::size_t i = 0; i < count; ++i) store(values, i, narrow_lane<T>(widen_lane(load<T>(values, i)) / divisor));
}

template <typename T>
void fold_elements(ReduceOp op, std::byte* into, const std::byte* incoming, const std::byte* own, std::size_t count) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: return fold_loop<Sum, T>(into, incoming, own, count);
    case ReduceOp::kProd: return fold_loop<Prod, T>(into, incoming, own, count);
    case ReduceOp::kMin: return fold_loop<Min, T>(into, incoming, own, count);
    case ReduceOp::kMax: return fold_loop<Max, T>(into, incoming, own, count);
  }
  LOCKSTEP_UNREACHABLE();
}

// Equally long, and either the same memory or no byte in common.
bool same_or_apart(std::span<const std::byte> a, std::span<const std::byte> b) {
  constexpr std::less_equal<const std::byte*> kBefore;
  return a.size() == b.size() &&
         (a.data() == b.data() || kBefore(a.data() + a.size(), b.data()) || kBefore(b.data() + b.size(), a.data()));
}

}  // namespace

void fold(DataType type, ReduceOp op, std::span<std::byte> into, std::span<const std::byte> incoming,
          std::span<const std::byte> own) {
  LOCKSTEP_ASSERT(into.size() % size_of(type) == 0);
  LOCKSTEP_ASSERT(same_or_apart(into, incoming));
  LOCKSTEP_ASSERT(same_or_apart(into, own));
  with_element(type, [&]<typename T>(std::type_identity<T>) {
    fold_elements<T>(op, into.data(), incoming.data(), own.data(), into.size() / sizeof(T));
  });
}

void divide(DataType type, std::span<std::byte> values, std::uint32_t contributors) {
  LOCKSTEP_ASSERT(values.size() % size_of(type) == 0);
  LOCKSTEP_ASSERT(contributors >= 1);
  with_element(type, [&]<typename T>(std::type_identity<T>) {
    divide_loop<T>(values.data(), values.size() / sizeof(T), contributors);
  });
}

}  // namespace lockstep
