#include "core/base/result.h"

#include <memory>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

Result<int> half_of(int n) {
  if (n % 2 != 0) return Error{Status::kInvalidArgument, "odd"};
  return n / 2;
}

TEST(Result, HoldsAValue) {
  const auto result = half_of(8);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(static_cast<bool>(result));
  EXPECT_EQ(result.value(), 4);
  EXPECT_EQ(*result, 4);
}

TEST(Result, HoldsAnError) {
  const auto result = half_of(7);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().status, Status::kInvalidArgument);
  EXPECT_EQ(result.error().text, "odd");
}

TEST(Result, MovesValuesThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);
  const std::unique_ptr<int> out = std::move(*result);
  EXPECT_EQ(*out, 3);
}

TEST(ResultDeathTest, ReadingTheWrongAlternativeAborts) {
  EXPECT_DEATH(static_cast<void>(half_of(7).value()), "assertion failed: ok\\(\\)");
  EXPECT_DEATH(static_cast<void>(half_of(8).error()), "assertion failed: !ok\\(\\)");
}

}  // namespace
}  // namespace lockstep
