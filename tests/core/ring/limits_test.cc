// The sizes that one call can have (docs/limits.md).
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ring/operation.h"
#include "core/ring/schedule.h"
#include "core/wire/limits.h"

namespace lockstep::ring {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;

Request all_reduce(const std::vector<std::uint64_t>& counts, DataType type = DataType::kU8) {
  Request request;
  request.collective = Collective::kAllReduce;
  request.type = type;
  for (const std::uint64_t count : counts) {
    const std::uint64_t bytes = count * size_of(type);
    request.tensors.push_back({{BufferId{3}, 0, bytes}, {BufferId{4}, 0, bytes}, count});
  }
  return request;
}

std::optional<Error> refusal(const Request& request, std::uint32_t world = 2) {
  return Operation::validate(request, Rank{0}, world, 0, {}, {});
}

TEST(Limits, SizesAround2To31And2To32AreCutWhole) {
  for (const std::uint64_t limit : {std::uint64_t{1} << 31U, std::uint64_t{1} << 32U}) {
    for (const std::uint64_t count : {limit - 1, limit, limit + 1}) {
      for (const std::uint32_t element_bytes : {1U, 4U, 8U}) {
        SCOPED_TRACE(testing::Message() << count << " elements of " << element_bytes);
        const std::vector<std::uint64_t> counts = {count};
        const auto pieces = cut(Collective::kAllReduce, counts, element_bytes, 3, 0, {});
        EXPECT_LE(pieces.size(), kMaxSegments);
        std::uint64_t next = 0;
        for (const Piece& piece : pieces) {
          ASSERT_EQ(piece.offset, next);
          ASSERT_LE(piece.length, kMaxSegmentBytes);
          next = piece.offset + piece.length;
        }
        EXPECT_EQ(next, count * element_bytes);
      }
    }
  }
}

TEST(Limits, ACallOf128GiBIsTheLargest) {
  EXPECT_FALSE(refusal(all_reduce({128 * kGiB})));
  const auto error = refusal(all_reduce({128 * kGiB + std::uint64_t{4} * kMaxSegmentBytes}));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status, Status::kInvalidArgument);
  EXPECT_NE(error->text.find("131072"), std::string::npos) << error->text;
  EXPECT_NE(error->text.find("split the call"), std::string::npos) << error->text;
}

// A tensor of up to 16 KiB is one piece, whatever the world; a larger one is a piece and more for each rank.
TEST(Limits, AListOf65536TensorsFitsIfTheyAreSmall) {
  EXPECT_FALSE(refusal(all_reduce(std::vector<std::uint64_t>(kMaxTensorsPerCall, 16'384)), 60));
  const auto error = refusal(all_reduce(std::vector<std::uint64_t>(kMaxTensorsPerCall, 100'000)), 3);
  ASSERT_TRUE(error);
  EXPECT_NE(error->text.find("split the call"), std::string::npos) << error->text;
}

}  // namespace
}  // namespace lockstep::ring
