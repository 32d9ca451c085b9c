#include "core/base/data_type.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// The numbers are part of the wire and the ABI: a change here needs a new version.
TEST(DataType, NumbersNamesAndSizes) {
  struct Row {
    DataType type;
    int number;
    std::string_view name;
    std::size_t size;
  };
  constexpr Row kRows[] = {
      {DataType::kU8, 0, "u8", 1},      {DataType::kI8, 1, "i8", 1},    {DataType::kU16, 2, "u16", 2},
      {DataType::kI16, 3, "i16", 2},    {DataType::kU32, 4, "u32", 4},  {DataType::kI32, 5, "i32", 4},
      {DataType::kU64, 6, "u64", 8},    {DataType::kI64, 7, "i64", 8},  {DataType::kF16, 8, "f16", 2},
      {DataType::kBF16, 9, "bf16", 2},  {DataType::kF32, 10, "f32", 4}, {DataType::kF64, 11, "f64", 8},
      {DataType::kBool, 12, "bool", 1},
  };
  EXPECT_EQ(std::size(kRows), kDataTypeCount);
  for (const Row& row : kRows) {
    EXPECT_EQ(static_cast<int>(row.type), row.number) << row.name;
    EXPECT_EQ(name_of(row.type), row.name);
    EXPECT_EQ(size_of(row.type), row.size) << row.name;
  }
}

TEST(ReduceOp, NumbersAndNames) {
  constexpr std::string_view kNames[] = {"sum", "avg", "prod", "min", "max", "band", "bor", "bxor"};
  static_assert(std::size(kNames) == kReduceOpCount);
  for (std::uint8_t i = 0; i < kReduceOpCount; ++i) EXPECT_EQ(name_of(static_cast<ReduceOp>(i)), kNames[i]);
}

TEST(ReduceOp, FloatsHaveNoBitwiseOperationsAndBooleansHaveNoAverage) {
  for (const DataType type : {DataType::kF16, DataType::kBF16, DataType::kF32, DataType::kF64}) {
    EXPECT_TRUE(is_defined(type, ReduceOp::kAvg));
    EXPECT_FALSE(is_defined(type, ReduceOp::kBitAnd));
    EXPECT_FALSE(is_defined(type, ReduceOp::kBitOr));
    EXPECT_FALSE(is_defined(type, ReduceOp::kBitXor));
  }
  EXPECT_FALSE(is_defined(DataType::kBool, ReduceOp::kAvg));
  EXPECT_TRUE(is_defined(DataType::kBool, ReduceOp::kBitXor));
  EXPECT_TRUE(is_defined(DataType::kI64, ReduceOp::kBitXor));
}

}  // namespace
}  // namespace lockstep
