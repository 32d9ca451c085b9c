// Loops without branches, so that compilers turn them into vector code (GCC: -O3 -fno-trapping-math, see
// CMakeLists.txt). Highway compiles this file once for each supported instruction set and chooses among them at run
// time.
#include "core/kernels/reduce.h"

#include <concepts>
#include <functional>

#include "core/base/assert.h"
#include "core/kernels/element.h"
#include "core/kernels/lanes.h"
#include "core/kernels/loops.h"
#include "core/kernels/reference.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/reduce.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::HWY_NAMESPACE {
namespace {

using reference::load;
using reference::store;

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
  for (std::size_t i = 0; i < count; ++i) store(values, i, lanes::quiet(load<T>(values, i) / divisor));
}

template <SmallFloat T>
void divide_loop(std::byte* values, std::size_t count, std::uint32_t contributors) {
  const auto divisor = static_cast<float>(contributors);
  for (std::size_t i = 0; i < count; ++i)
    store(values, i, lanes::narrow_lane<T>(lanes::widen_lane(load<T>(values, i)) / divisor));
}

template <typename T>
void fold_bits(ReduceOp op, std::byte* into, const std::byte* incoming, const std::byte* own, std::size_t count) {
  if (op == ReduceOp::kBitAnd) return fold_loop<lanes::BitAnd, T>(into, incoming, own, count);
  if (op == ReduceOp::kBitOr) return fold_loop<lanes::BitOr, T>(into, incoming, own, count);
  fold_loop<lanes::BitXor, T>(into, incoming, own, count);
}

// The bitwise operation on 0 and 1 that is the operation on booleans.
ReduceOp bitwise_of(ReduceOp op) {
  if (op == ReduceOp::kSum || op == ReduceOp::kMax) return ReduceOp::kBitOr;
  return op == ReduceOp::kProd || op == ReduceOp::kMin ? ReduceOp::kBitAnd : op;
}

template <typename T>
void fold_numbers(ReduceOp op, std::byte* into, const std::byte* incoming, const std::byte* own, std::size_t count) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: return fold_loop<lanes::Sum, T>(into, incoming, own, count);
    case ReduceOp::kProd: return fold_loop<lanes::Prod, T>(into, incoming, own, count);
    case ReduceOp::kMin: return fold_loop<lanes::Min, T>(into, incoming, own, count);
    case ReduceOp::kMax: return fold_loop<lanes::Max, T>(into, incoming, own, count);
    case ReduceOp::kBitAnd:
    case ReduceOp::kBitOr:
    case ReduceOp::kBitXor:
      if constexpr (std::integral<T>) return fold_bits<T>(op, into, incoming, own, count);
      break;  // is_defined() excludes floating-point types
  }
  LOCKSTEP_UNREACHABLE();
}

template <typename T>
void fold_elements(ReduceOp op, std::byte* into, const std::byte* incoming, const std::byte* own, std::size_t count) {
  if constexpr (std::same_as<T, Bool>) {
    fold_bits<Bool>(bitwise_of(op), into, incoming, own, count);
  } else {
    fold_numbers<T>(op, into, incoming, own, count);
  }
}

void fold_any(DataType type, ReduceOp op, std::byte* into, const std::byte* incoming, const std::byte* own,
              std::size_t size) {
  with_element(type,
               [&]<typename T>(std::type_identity<T>) { fold_elements<T>(op, into, incoming, own, size / sizeof(T)); });
}

void divide_any(DataType type, std::byte* values, std::size_t size, std::uint32_t contributors) {
  with_element(type, [&]<typename T>(std::type_identity<T>) {
    if constexpr (std::same_as<T, Bool>) {
      LOCKSTEP_UNREACHABLE();  // is_defined() excludes averages of booleans
    } else {
      divide_loop<T>(values, size / sizeof(T), contributors);
    }
  });
}

}  // namespace
}  // namespace lockstep::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep {
namespace {

HWY_EXPORT(fold_any);
HWY_EXPORT(divide_any);

// Whether the spans have equal length, and are either the same memory or without a common byte.
bool same_or_apart(std::span<const std::byte> a, std::span<const std::byte> b) {
  constexpr std::less_equal<const std::byte*> kBefore;
  return a.size() == b.size() &&
         (a.data() == b.data() || kBefore(a.data() + a.size(), b.data()) || kBefore(b.data() + b.size(), a.data()));
}

}  // namespace

void fold(DataType type, ReduceOp op, std::span<std::byte> into, std::span<const std::byte> incoming,
          std::span<const std::byte> own) {
  LOCKSTEP_ASSERT(is_defined(type, op));
  LOCKSTEP_ASSERT(into.size() % size_of(type) == 0);
  LOCKSTEP_ASSERT(same_or_apart(into, incoming));
  LOCKSTEP_ASSERT(same_or_apart(into, own));
  HWY_DYNAMIC_DISPATCH(fold_any)(type, op, into.data(), incoming.data(), own.data(), into.size());
}

void divide(DataType type, std::span<std::byte> values, std::uint32_t contributors) {
  LOCKSTEP_ASSERT(is_defined(type, ReduceOp::kAvg));
  LOCKSTEP_ASSERT(values.size() % size_of(type) == 0);
  LOCKSTEP_ASSERT(contributors >= 1);
  HWY_DYNAMIC_DISPATCH(divide_any)(type, values.data(), values.size(), contributors);
}

}  // namespace lockstep
#endif  // HWY_ONCE
