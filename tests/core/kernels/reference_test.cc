// The results of the operations in numbers. Each row is checked on the scalar reference and on the vector loops.
#include "core/kernels/reference.h"

#include <array>
#include <limits>

#include <gtest/gtest.h>

#include "core/kernels/reduce.h"

namespace lockstep {
namespace {

template <typename T>
inline constexpr DataType kTypeOf = DataType::kU8;
template <>
inline constexpr DataType kTypeOf<std::int8_t> = DataType::kI8;
template <>
inline constexpr DataType kTypeOf<std::uint16_t> = DataType::kU16;
template <>
inline constexpr DataType kTypeOf<std::int16_t> = DataType::kI16;
template <>
inline constexpr DataType kTypeOf<std::uint32_t> = DataType::kU32;
template <>
inline constexpr DataType kTypeOf<std::int32_t> = DataType::kI32;
template <>
inline constexpr DataType kTypeOf<std::uint64_t> = DataType::kU64;
template <>
inline constexpr DataType kTypeOf<std::int64_t> = DataType::kI64;
template <>
inline constexpr DataType kTypeOf<F16> = DataType::kF16;
template <>
inline constexpr DataType kTypeOf<BF16> = DataType::kBF16;
template <>
inline constexpr DataType kTypeOf<float> = DataType::kF32;
template <>
inline constexpr DataType kTypeOf<double> = DataType::kF64;

constexpr std::size_t kLanes = 19;  // more than a vector, and a tail

template <typename T>
using Lanes = std::array<T, kLanes>;

template <typename T>
Lanes<T> lanes(T value) {
  Lanes<T> all;
  all.fill(value);
  return all;
}

template <typename T>
auto bits_of(T value) {
  return std::bit_cast<BitsOf<T>>(value);
}

template <typename T>
void expect_fold(ReduceOp op, T a, T b, T expected) {
  EXPECT_EQ(bits_of(reference::fold_one(op, a, b)), bits_of(expected)) << name_of(kTypeOf<T>) << ' ' << name_of(op);
  const auto incoming = lanes(a);
  const auto own = lanes(b);
  Lanes<T> into{};
  fold(kTypeOf<T>, op, std::as_writable_bytes(std::span(into)), std::as_bytes(std::span(incoming)),
       std::as_bytes(std::span(own)));
  for (const T value : into) ASSERT_EQ(bits_of(value), bits_of(expected)) << name_of(kTypeOf<T>) << ' ' << name_of(op);
}

template <typename T>
void expect_divide(T total, std::uint32_t contributors, T expected) {
  EXPECT_EQ(bits_of(reference::divide_one(total, contributors)), bits_of(expected)) << name_of(kTypeOf<T>);
  auto values = lanes(total);
  divide(kTypeOf<T>, std::as_writable_bytes(std::span(values)), contributors);
  for (const T value : values) ASSERT_EQ(bits_of(value), bits_of(expected)) << name_of(kTypeOf<T>);
}

constexpr auto kSum = ReduceOp::kSum;
constexpr auto kAvg = ReduceOp::kAvg;
constexpr auto kProd = ReduceOp::kProd;
constexpr auto kMin = ReduceOp::kMin;
constexpr auto kMax = ReduceOp::kMax;

template <typename T>
class Integers : public testing::Test {};
using AllIntegers = testing::Types<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t,
                                   std::uint64_t, std::int64_t>;
TYPED_TEST_SUITE(Integers, AllIntegers);

TYPED_TEST(Integers, WrapAndOrder) {
  using T = TypeParam;
  constexpr T kLeast = std::numeric_limits<T>::min();
  constexpr T kMost = std::numeric_limits<T>::max();
  constexpr T kOne = 1;
  constexpr T kTwo = 2;
  expect_fold<T>(kSum, kMost, kOne, kLeast);
  expect_fold<T>(kAvg, kMost, kTwo, static_cast<T>(kLeast + kOne));  // averages are sums until they are divided
  expect_fold<T>(kProd, kMost, kMost, kOne);                         // (-1)^2 and (2^(n-1) - 1)^2 are both 1 mod 2^n
  expect_fold<T>(kProd, kLeast, kTwo, T{0});
  expect_fold<T>(kProd, T{5}, T{7}, T{35});
  expect_fold<T>(kMin, kLeast, kMost, kLeast);
  expect_fold<T>(kMin, kMost, kLeast, kLeast);
  expect_fold<T>(kMax, kLeast, kMost, kMost);
  expect_fold<T>(kMax, kMost, kLeast, kMost);
  expect_fold<T>(kMax, kOne, kTwo, kTwo);
}

TYPED_TEST(Integers, AveragesRoundTowardZero) {
  using T = TypeParam;
  constexpr T kLeast = std::numeric_limits<T>::min();
  constexpr T kMost = std::numeric_limits<T>::max();
  constexpr std::uint32_t kManyContributors = 4'294'967'295U;
  expect_divide<T>(T{7}, 2, T{3});
  expect_divide<T>(kMost, 1, kMost);
  expect_divide<T>(kLeast, 1, kLeast);
  expect_divide<T>(kLeast, 2, static_cast<T>(kLeast / 2));
  if constexpr (std::is_signed_v<T>) {
    expect_divide<T>(T{-7}, 2, T{-3});
    expect_divide<T>(T{-1}, 3, T{0});
  }
  if constexpr (sizeof(T) < 4) {
    expect_divide<T>(kMost, kManyContributors, T{0});  // the count may not be cut to the type
    expect_divide<T>(kLeast, 1U << 31U, T{0});
  }
}

// One element of each floating-point type, given by its bits.
template <typename T>
struct Bits;
template <>
struct Bits<F16> {
  static constexpr std::uint16_t kOne = 0x3c00, kTwo = 0x4000, kThird = 0x3555, kMost = 0x7bff, kInfinity = 0x7c00,
                                 kSignaling = 0xfc01, kPayload = 0x7e55, kLeastNormal = 0x0400, kSign = 0x8000;
};
template <>
struct Bits<BF16> {
  static constexpr std::uint16_t kOne = 0x3f80, kTwo = 0x4000, kThird = 0x3eab, kMost = 0x7f7f, kInfinity = 0x7f80,
                                 kSignaling = 0xff81, kPayload = 0x7fd5, kLeastNormal = 0x0080, kSign = 0x8000;
};
template <>
struct Bits<float> {
  static constexpr std::uint32_t kOne = 0x3f80'0000, kTwo = 0x4000'0000, kThird = 0x3eaa'aaab, kMost = 0x7f7f'ffff,
                                 kInfinity = 0x7f80'0000, kSignaling = 0xff80'0001, kPayload = 0x7fc0'0055,
                                 kLeastNormal = 0x0080'0000, kSign = 0x8000'0000;
};
template <>
struct Bits<double> {
  static constexpr std::uint64_t kOne = 0x3ff0'0000'0000'0000, kTwo = 0x4000'0000'0000'0000,
                                 kThird = 0x3fd5'5555'5555'5555, kMost = 0x7fef'ffff'ffff'ffff,
                                 kInfinity = 0x7ff0'0000'0000'0000, kSignaling = 0xfff0'0000'0000'0001,
                                 kPayload = 0x7ff8'0000'0000'0055, kLeastNormal = 0x0010'0000'0000'0000,
                                 kSign = 0x8000'0000'0000'0000;
};

template <typename T>
class Floats : public testing::Test {
 public:
  static void expect(ReduceOp op, BitsOf<T> a, BitsOf<T> b, BitsOf<T> expected) {
    SCOPED_TRACE(testing::Message() << std::hex << +a << ' ' << +b);
    expect_fold(op, std::bit_cast<T>(a), std::bit_cast<T>(b), std::bit_cast<T>(expected));
  }
  static void expect_both_ways(ReduceOp op, BitsOf<T> a, BitsOf<T> b, BitsOf<T> expected) {
    expect(op, a, b, expected);
    expect(op, b, a, expected);
  }
  static void expect_average(BitsOf<T> total, std::uint32_t contributors, BitsOf<T> expected) {
    expect_divide(std::bit_cast<T>(total), contributors, std::bit_cast<T>(expected));
  }
  static BitsOf<T> minus(BitsOf<T> magnitude) { return static_cast<BitsOf<T>>(Bits<T>::kSign | magnitude); }
};
using AllFloats = testing::Types<F16, BF16, float, double>;
TYPED_TEST_SUITE(Floats, AllFloats);

TYPED_TEST(Floats, OrdinaryNumbers) {
  using B = Bits<TypeParam>;
  this->expect(kSum, B::kOne, B::kOne, B::kTwo);
  this->expect(kAvg, B::kOne, B::kOne, B::kTwo);
  this->expect(kProd, B::kTwo, B::kOne, B::kTwo);
  this->expect_both_ways(kMin, B::kOne, B::kTwo, B::kOne);
  this->expect_both_ways(kMax, B::kOne, B::kTwo, B::kTwo);
  this->expect_both_ways(kMin, this->minus(B::kOne), this->minus(B::kTwo), this->minus(B::kTwo));
  this->expect_both_ways(kMax, this->minus(B::kOne), B::kOne, B::kOne);
  this->expect_average(B::kOne, 3, B::kThird);
}

TYPED_TEST(Floats, EveryNanResultIsTheCanonicalOne) {
  using B = Bits<TypeParam>;
  constexpr auto kNan = kNanBits<TypeParam>;
  for (const auto op : {kSum, kAvg, kProd, kMin, kMax}) {
    for (const auto nan : {B::kSignaling, B::kPayload, this->minus(kNan), kNan}) {
      for (const auto other : {B::kOne, B::kInfinity, this->minus(0), B::kPayload}) {
        this->expect_both_ways(op, nan, other, kNan);
      }
    }
  }
  this->expect_both_ways(kSum, B::kInfinity, this->minus(B::kInfinity), kNan);
  this->expect_both_ways(kProd, B::kInfinity, 0, kNan);
  this->expect_average(B::kSignaling, 2, kNan);
}

TYPED_TEST(Floats, InfinitiesAndOverflow) {
  using B = Bits<TypeParam>;
  const auto minus_infinity = this->minus(B::kInfinity);
  this->expect(kSum, B::kMost, B::kMost, B::kInfinity);
  this->expect(kProd, this->minus(B::kMost), B::kTwo, minus_infinity);
  this->expect_both_ways(kSum, B::kInfinity, B::kMost, B::kInfinity);
  this->expect_both_ways(kMin, minus_infinity, this->minus(B::kMost), minus_infinity);
  this->expect_both_ways(kMax, B::kInfinity, B::kMost, B::kInfinity);
  this->expect_average(minus_infinity, 5, minus_infinity);
}

TYPED_TEST(Floats, ZerosHaveSigns) {
  using B = Bits<TypeParam>;
  const auto minus_zero = this->minus(0);
  this->expect(kSum, minus_zero, minus_zero, minus_zero);
  this->expect_both_ways(kSum, minus_zero, 0, 0);
  this->expect_both_ways(kSum, B::kOne, this->minus(B::kOne), 0);
  this->expect_both_ways(kProd, minus_zero, B::kOne, minus_zero);
  this->expect_both_ways(kMin, minus_zero, 0, minus_zero);
  this->expect_both_ways(kMax, minus_zero, 0, 0);
  this->expect(kMax, minus_zero, minus_zero, minus_zero);
  this->expect_average(minus_zero, 3, minus_zero);
}

TYPED_TEST(Floats, DenormalsAreKept) {
  using B = Bits<TypeParam>;
  constexpr auto kLargestDenormal = static_cast<BitsOf<TypeParam>>(B::kLeastNormal - 1);
  this->expect(kSum, 1, 1, 2);
  this->expect_both_ways(kSum, kLargestDenormal, 1, B::kLeastNormal);
  this->expect_both_ways(kSum, B::kLeastNormal, this->minus(1), kLargestDenormal);
  this->expect_both_ways(kProd, 1, B::kTwo, 2);
  this->expect_both_ways(kMin, 1, 2, 1);
  this->expect_both_ways(kMax, 1, this->minus(1), 1);
  this->expect_average(B::kLeastNormal, 2, static_cast<BitsOf<TypeParam>>(B::kLeastNormal / 2));
  this->expect_average(3, 2, 2);  // half way between 1 and 2: to even
  this->expect_average(1, 2, 0);
}

// The sum is rounded before it is divided: 1 + half of the last bit is lost, then 1 / 2.
TEST(Floats, SmallFormatsRoundAfterEachOperation) {
  EXPECT_EQ(reference::fold_one(kAvg, F16{0x3c00}, F16{0x1000}), F16{0x3c00});     // 1 + 2^-11
  EXPECT_EQ(reference::fold_one(kAvg, F16{0x3c01}, F16{0x1000}), F16{0x3c02});     // the tie goes to even
  EXPECT_EQ(reference::fold_one(kSum, BF16{0x3f80}, BF16{0x3b80}), BF16{0x3f80});  // 1 + 2^-8
}

}  // namespace
}  // namespace lockstep
