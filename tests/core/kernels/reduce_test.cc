#include "core/kernels/reduce.h"

#include <cfenv>

#include <gtest/gtest.h>

#include "core/kernels/float_environment.h"
#include "tests/support/elements.h"
#include "tests/support/every_target.h"

namespace lockstep {
namespace {

using test::Bytes;
using test::hostile_elements;

Bytes expected_fold(DataType type, ReduceOp op, const Bytes& incoming, const Bytes& own) {
  Bytes into(own.size());
  reference::fold(type, op, into, incoming, own);
  return into;
}

// A span of `size` bytes at a chosen distance from an aligned address. The bytes around the span must not change.
class Placed {
 public:
  Placed(const Bytes& bytes, std::size_t alignment) : at_(16 + alignment), size_(bytes.size()) {
    memory_.resize(at_, std::byte{0xa5});
    for (const std::byte byte : bytes) memory_.push_back(byte);
    memory_.resize(memory_.size() + 16, std::byte{0xa5});
  }
  std::span<std::byte> span() { return std::span(memory_).subspan(at_, size_); }
  [[nodiscard]] bool surroundings_untouched() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if ((i < at_ || i >= at_ + size_) && memory_[i] != std::byte{0xa5}) return false;
    }
    return true;
  }

 private:
  std::size_t at_;
  std::size_t size_;
  Bytes memory_;
};

bool same(std::span<const std::byte> a, const Bytes& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

class Fold : public test::EveryTarget {};
class Divide : public test::EveryTarget {};
LOCKSTEP_ON_EVERY_TARGET(Fold);
LOCKSTEP_ON_EVERY_TARGET(Divide);

TEST_P(Fold, AnyLengthAndAnyAlignment) {
  for (const auto type : test::kAllTypes) {
    for (const auto op : test::ops_of(type)) {
      for (std::size_t count = 0; count <= 70; ++count) {
        const Bytes incoming = hostile_elements(type, count, 1);
        const Bytes own = hostile_elements(type, count, 2);
        const Bytes expected = expected_fold(type, op, incoming, own);
        for (std::size_t alignment = 0; alignment < 16; ++alignment) {
          Placed from(incoming, alignment);
          Placed mine(own, (alignment * 7 + count) % 16);
          Placed into(Bytes(incoming.size()), (alignment * 3 + count / 16) % 16);
          fold(type, op, into.span(), from.span(), mine.span());
          ASSERT_TRUE(same(into.span(), expected)) << name_of(type) << ' ' << name_of(op) << ' ' << count;
          ASSERT_TRUE(into.surroundings_untouched());
          ASSERT_TRUE(same(from.span(), incoming) && same(mine.span(), own));
        }
      }
    }
  }
}

TEST_P(Fold, IntoEitherInput) {
  for (const auto type : test::kAllTypes) {
    for (const auto op : test::ops_of(type)) {
      for (const std::size_t count : {1U, 7U, 16U, 67U, 300U}) {
        const Bytes incoming = hostile_elements(type, count, 3);
        const Bytes own = hostile_elements(type, count, 4);
        const Bytes expected = expected_fold(type, op, incoming, own);
        Bytes into = incoming;
        fold(type, op, into, into, own);
        EXPECT_EQ(into, expected) << name_of(type) << ' ' << name_of(op);
        into = own;
        fold(type, op, into, incoming, into);
        EXPECT_EQ(into, expected) << name_of(type) << ' ' << name_of(op);
        into = own;
        fold(type, op, into, into, into);
        EXPECT_EQ(into, expected_fold(type, op, own, own)) << name_of(type) << ' ' << name_of(op);
      }
    }
  }
}

TEST_P(Divide, AnyLengthAndAnyAlignment) {
  for (const auto type : test::types_with_average()) {
    for (std::size_t count = 0; count <= 70; ++count) {
      const Bytes totals = hostile_elements(type, count, 5);
      for (const std::uint32_t contributors : {1U, 3U, 64U, 4'000'000'001U}) {
        Bytes expected = totals;
        reference::divide(type, expected, contributors);
        Placed values(totals, (count + contributors) % 16);
        divide(type, values.span(), contributors);
        ASSERT_TRUE(same(values.span(), expected)) << name_of(type) << ' ' << count << ' ' << contributors;
        ASSERT_TRUE(values.surroundings_untouched());
      }
    }
  }
}

// Every pair of upper bytes, which contain sign and exponent, with random lower bytes.
TEST_P(Fold, SmallFloatsOfEveryExponent) {
  constexpr std::size_t kCount = 65536;
  for (const auto type : {DataType::kF16, DataType::kBF16}) {
    Bytes incoming(kCount * sizeof(F16));
    Bytes own(kCount * sizeof(F16));
    for (std::size_t i = 0; i < kCount; ++i) {
      reference::store(incoming.data(), i, static_cast<std::uint16_t>((i & 0xff00U) | (draw(6, i) & 0xffU)));
      reference::store(own.data(), i, static_cast<std::uint16_t>(((i & 0xffU) << 8U) | (draw(7, i) & 0xffU)));
    }
    for (const auto op : test::ops_of(type)) {
      Bytes into(incoming.size());
      fold(type, op, into, incoming, own);
      EXPECT_TRUE(into == expected_fold(type, op, incoming, own)) << name_of(type) << ' ' << name_of(op);
    }
  }
}

TEST(FoldDeathTest, RefusesSpansThatDoNotFit) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  Bytes memory(32);
  const std::span all(memory);
  EXPECT_DEATH(fold(DataType::kF32, ReduceOp::kSum, all.first(8), all.first(8), all.first(12)), "same_or_apart");
  EXPECT_DEATH(fold(DataType::kF32, ReduceOp::kSum, all.first(8), all.subspan(4, 8), all.first(8)), "same_or_apart");
  EXPECT_DEATH(fold(DataType::kF32, ReduceOp::kSum, all.first(7), all.first(7), all.first(7)), "size");
  EXPECT_DEATH(divide(DataType::kF32, all, 0), "contributors");
}

TEST(StandardFloats, HoldsForAScope) {
  std::fesetround(FE_UPWARD);
  {
    const StandardFloats standard;
    EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  }
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
}

}  // namespace
}  // namespace lockstep
