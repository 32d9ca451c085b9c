// Programs and libraries of different versions: structs that are shorter or longer than the library's.
#include "bindings/c/sized.h"

#include <gtest/gtest.h>

namespace lockstep::c {
namespace {

struct Old {
  std::size_t struct_size;
  std::uint64_t first;
};
struct Current {
  std::size_t struct_size;
  std::uint64_t first;
  std::uint64_t second;
};
struct Newer {
  std::size_t struct_size;
  std::uint64_t first;
  std::uint64_t second;
  std::uint64_t third;
};

// The struct that a library with Current reads from a program compiled with T.
template <typename T>
Result<Current> read(const T& from) {
  return take(reinterpret_cast<const Current*>(&from), "args", sizeof(Old));
}

TEST(SizedStruct, FieldsThatTheCallerDoesNotKnowAreZero) {
  const auto taken = read(Old{sizeof(Old), 7});
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(taken->first, 7U);
  EXPECT_EQ(taken->second, 0U);
}

TEST(SizedStruct, UnknownFieldsAreIgnoredWhileTheyAreZero) {
  const auto taken = read(Newer{sizeof(Newer), 7, 8, 0});
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(taken->second, 8U);
}

TEST(SizedStruct, UnknownFieldsThatAreSetAreRefused) {
  const auto taken = read(Newer{sizeof(Newer), 7, 8, 9});
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().status, Status::kInvalidArgument);
  EXPECT_NE(taken.error().text.find("byte 24 is not 0"), std::string::npos) << taken.error().text;
}

TEST(SizedStruct, ImpossibleSizesAreRefused) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, sizeof(Old) - 1, kMaxStructSize + 1, SIZE_MAX}) {
    const auto taken = read(Current{size, 7, 8});
    ASSERT_FALSE(taken.ok()) << size;
    EXPECT_NE(taken.error().text.find("args.struct_size is " + std::to_string(size)), std::string::npos);
  }
}

TEST(SizedStruct, WritesNothingBeyondTheCallersStruct) {
  Current memory{sizeof(Old), 0, 99};
  give(Current{0, 1, 2}, &memory);
  EXPECT_EQ(memory.struct_size, sizeof(Old));
  EXPECT_EQ(memory.first, 1U);
  EXPECT_EQ(memory.second, 99U);
}

}  // namespace
}  // namespace lockstep::c
