// Collectives in words, and back.
#include "sim/plan/work.h"

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

TEST(Work, IsWrittenAsItIsRead) {
  for (const char* text : {"all_reduce 1000 f32 sum", "reduce_scatter 7 bf16 avg", "all_gather 3 u8 sum",
                           "broadcast 8 f64 sum", "all_reduce 9 f32 avg int4/int8", "all_reduce 9 f32 sum direct",
                           "all_reduce 9 f32 sum int8/bf16 ring", "all_reduce 0 i64 max", "barrier"}) {
    const Result<std::vector<Work>> work = work_from_text(text);
    ASSERT_TRUE(work.ok()) << work.error().text;
    ASSERT_EQ(work->size(), 1U);
    EXPECT_EQ(to_text(work->front()), text);
  }
}

TEST(Work, HasSizesTimesAndDefaults) {
  const Result<std::vector<Work>> work = work_from_text("4x all_reduce 64KiB");
  ASSERT_TRUE(work.ok());
  EXPECT_EQ(work->size(), 4U);
  EXPECT_EQ(to_text(work->back()), "all_reduce 16384 f32 sum");
}

TEST(Work, MistakesAreNamed) {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"", "a collective is missing, such as \"all_reduce 64KiB f32 sum\""},
      {"all_redcue 5", "unknown collective 'all_redcue'; did you mean 'all_reduce'?"},
      {"all_reduce", "how much? Give elements or a size, such as \"all_reduce 64KiB\""},
      {"all_reduce 5 fp32",
       "'fp32' is no size, type, operation, algorithm or pair of wire formats; did you mean 'f32'?"},
      {"all_reduce 9 f32 int4/int8 ring",
       "around the ring contributions are rounded at every member, which is too often for int4: use the direct "
       "algorithm, or a format of 8 bits or more on the way up (int8)"},
      {"broadcast 9 f64 direct",
       "broadcast cannot ask for the algorithm direct: only an all-reduce can ask for all of them"},
      {"all_reduce 10B f32", "10 bytes are no whole elements of f32"},
      {"barrier 5", "a barrier has no '5'"},
      {"0x barrier", "a collective can be repeated 1x to 64x"},
      {"65x barrier", "a collective can be repeated 1x to 64x"},
  };
  for (const auto& c : cases) {
    const Result<std::vector<Work>> work = work_from_text(c.text);
    ASSERT_FALSE(work.ok()) << c.text;
    EXPECT_EQ(work.error().text, c.says);
  }
}

}  // namespace
}  // namespace lockstep::sim
