#include "core/ring/runs.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "core/ring/request.h"
#include "core/ring/schedule.h"

namespace lockstep::ring {
namespace {

using Counts = std::vector<std::uint64_t>;
using ListOfRuns = std::vector<Run>;  // gtest's Test has a Run of its own
constexpr std::uint64_t kSmall = kWholeBytes / sizeof(float);

std::vector<Run> runs(const Counts& counts, Collective collective = Collective::kAllReduce, bool encodes = false) {
  return runs_of(collective, encodes, counts, sizeof(float));
}

TEST(Runs, JoinNeighboursThatAreSmall) {
  EXPECT_EQ(runs({}), ListOfRuns{});
  EXPECT_EQ(runs({5}), (ListOfRuns{{0, 1, 5}}));
  EXPECT_EQ(runs({5, 0, kSmall}), (ListOfRuns{{0, 3, 5 + kSmall}}));
  EXPECT_EQ(runs({5, kSmall + 1, 6, 7}), (ListOfRuns{{0, 1, 5}, {1, 2, kSmall + 1}, {2, 4, 13}}));
  EXPECT_EQ(runs({kSmall + 1, kSmall + 1}), (ListOfRuns{{0, 1, kSmall + 1}, {1, 2, kSmall + 1}}));
  EXPECT_TRUE(runs({5, 6}).front().joins());
  EXPECT_FALSE(runs({5}).front().joins());
}

TEST(Runs, JoinNothingThatIsEncodedOrHasChunksOfItsOwn) {
  const Counts counts = {1, 2, 3};
  EXPECT_EQ(runs(counts, Collective::kAllReduce, true).size(), 3U);
  EXPECT_EQ(runs(counts, Collective::kReduceScatter).size(), 3U);
  EXPECT_EQ(runs(counts, Collective::kSync).size(), 3U);
  EXPECT_EQ(runs(counts, Collective::kBroadcast).size(), 1U);
  EXPECT_EQ(runs(counts, Collective::kReduce).size(), 1U);
}

// 10,000 arrays on top of one flat array: this many more messages in each direction.
TEST(Runs, ManySmallTensorsAreNoMoreSegmentsThanOneTensor) {
  const Counts many(10'000, 25);
  const ListOfRuns joined = runs(many);
  ASSERT_EQ(joined.size(), 1U);
  const Counts flat = {joined.front().count};
  for (const std::uint32_t world : {2U, 3U, 8U}) {
    EXPECT_LT(segments_in(Collective::kAllReduce, flat, sizeof(float), world, {}), 100U);
    EXPECT_EQ(segments_in(Collective::kAllReduce, many, sizeof(float), world, {}), many.size());
  }
}

// Peers compare what their callers have stated: lists that join to equal tensors differ.
TEST(Runs, DescriptorsHoldTheTensorsOfTheCaller) {
  const auto descriptor = [](const Counts& counts, bool joins) {
    Request request;
    request.collective = Collective::kAllReduce;
    request.type = DataType::kF32;
    if (joins) {
      request.stated = {static_cast<std::uint32_t>(counts.size()), layout_of(counts)};
      for (const auto& run : runs(counts)) request.tensors.push_back({{}, {}, run.count});
    } else {
      for (const std::uint64_t count : counts) request.tensors.push_back({{}, {}, count});
    }
    return descriptor_of(request, 0);
  };
  EXPECT_EQ(descriptor({3, 4}, true), descriptor({3, 4}, false));
  EXPECT_NE(descriptor({3, 4}, true), descriptor({4, 3}, true));
  EXPECT_NE(descriptor({3, 4}, true), descriptor({7}, true));
}

}  // namespace
}  // namespace lockstep::ring
