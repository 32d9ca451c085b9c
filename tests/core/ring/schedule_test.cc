#include "core/ring/schedule.h"

#include <gtest/gtest.h>

#include <array>

#include "core/wire/limits.h"

namespace lockstep::ring {
namespace {

using wire::Collective;
using wire::Phase;

TEST(Schedule, TheFirstRanksTakeTheRemainder) {
  EXPECT_EQ(chunk_of(0, 3, 10).size(), 4U);
  EXPECT_EQ(chunk_of(1, 3, 10).size(), 3U);
  EXPECT_EQ(chunk_of(2, 3, 10).begin, 7U);
  EXPECT_EQ(chunk_of(2, 3, 2).size(), 0U);
  EXPECT_EQ(chunk_of(0, 4, 0).size(), 0U);
}

TEST(Schedule, ReduceScatterStartsBehindTheOwnerAndEndsAtIt) {
  EXPECT_FALSE(part_of(Phase::kReduceScatter, 2, 1, 4).receives);
  EXPECT_TRUE(part_of(Phase::kReduceScatter, 2, 1, 4).sends);
  EXPECT_TRUE(part_of(Phase::kReduceScatter, 1, 1, 4).receives);
  EXPECT_FALSE(part_of(Phase::kReduceScatter, 1, 1, 4).sends);
}

TEST(Schedule, AllGatherStartsAtTheOwnerAndEndsBeforeIt) {
  EXPECT_FALSE(part_of(Phase::kAllGather, 1, 1, 4).receives);
  EXPECT_TRUE(part_of(Phase::kAllGather, 1, 1, 4).sends);
  EXPECT_TRUE(part_of(Phase::kAllGather, 0, 1, 4).receives);
  EXPECT_FALSE(part_of(Phase::kAllGather, 0, 1, 4).sends);
}

TEST(Schedule, AWorldOfOneSendsNothing) {
  for (const Phase phase : {Phase::kReduceScatter, Phase::kAllGather}) {
    EXPECT_FALSE(part_of(phase, 0, 0, 1).receives);
    EXPECT_FALSE(part_of(phase, 0, 0, 1).sends);
  }
}

TEST(Schedule, SegmentsHoldWholeElementsAndStayWithinTheLimit) {
  EXPECT_EQ(segment_bytes_for(1'000'000, 8, 3, {1003}), 1000U);
  EXPECT_EQ(segment_bytes_for(10, 8, 3, {3}), 8U);
  EXPECT_LE(segment_bytes_for(std::uint64_t{1} << 40U, 4, 3, {}), kMaxSegmentBytes);
}

TEST(Schedule, TheNearerTheRanksTheLargerTheSegments) {
  const Segmenting near{0, Distance::kNear};
  const Segmenting here{0, Distance::kSameHost};
  EXPECT_EQ(segment_bytes_for(400'000, 4, 3, {}), 50'000U);
  EXPECT_EQ(segment_bytes_for(400'000, 4, 3, near), 200'000U);
  EXPECT_EQ(segment_bytes_for(400'000, 4, 3, here), 400'000U);
  EXPECT_EQ(segment_bytes_for(400'000, 4, 3, {1000, Distance::kSameHost}), 1000U);
  const std::uint64_t large = 64U << 20U;
  EXPECT_EQ(segment_bytes_for(large, 4, 3, here), 256U << 10U);
  EXPECT_EQ(segment_bytes_for(large, 4, 3, near), 256U << 10U);
  EXPECT_EQ(segment_bytes_for(large, 4, 3, {}), 64U << 10U) << "many slow streams";
  EXPECT_EQ(segment_bytes_for(large, 4, 2, here), kMaxSegmentBytes) << "two hand nothing on";
  const std::array<std::uint64_t, 1> counts{65'536};
  EXPECT_EQ(cut(Collective::kAllReduce, counts, 4, 4, 0, here).size(), 4U);
  EXPECT_EQ(cut(Collective::kBroadcast, counts, 4, 4, 0, here).size(),
            cut(Collective::kBroadcast, counts, 4, 4, 0, {}).size())
      << "it is passed on all along the ring";
}

TEST(Schedule, SegmentsAreSmallWhereLinesLosePackets) {
  const auto on = [](Distance distance, std::uint32_t configured) {
    return Segmenting{.configured = configured, .distance = distance, .lossy = true};
  };
  constexpr std::uint64_t kLarge = 16U << 20U;
  EXPECT_EQ(segment_bytes_for(kLarge, 4, 4, on(Distance::kFar, 0)), 16U << 10U);
  EXPECT_EQ(lossy_segments_in_one(on(Distance::kFar, 0)), 4U);
  EXPECT_EQ(segment_bytes_for(kLarge, 4, 4, on(Distance::kFar, 100'000)), 100'000U) << "the caller's";
  EXPECT_EQ(lossy_segments_in_one(on(Distance::kFar, 100'000)), 1U);
  EXPECT_EQ(segment_bytes_for(kLarge, 4, 4, on(Distance::kNear, 0)), 256U << 10U);
  EXPECT_EQ(lossy_segments_in_one(on(Distance::kNear, 0)), 1U);
  EXPECT_EQ(lossy_segments_in_one({}), 1U);
  EXPECT_EQ(segment_bytes_for(kLarge * 16, 4, 4, on(Distance::kFar, 0)), 128U << 10U) << "their number has a limit";
}

TEST(Schedule, CutsMoreThanFourGiBWithoutOverflow) {
  const std::array<std::uint64_t, 1> counts{(std::uint64_t{5} << 30U) / 4 + 3};
  const auto pieces = cut(Collective::kAllReduce, counts, 4, 3, 0, {});
  EXPECT_LE(pieces.size(), kMaxSegments);
  EXPECT_EQ(pieces.back().offset + pieces.back().length, counts[0] * 4);
}

TEST(Schedule, SmallTensorsAreNotCutAndRanksTakeTurnsAsOwners) {
  const std::array<std::uint64_t, 4> counts{1, 0, 4096, 4097};
  const auto pieces = cut(Collective::kAllReduce, counts, 4, 2, 0, {});
  ASSERT_EQ(pieces.size(), 4U);
  EXPECT_EQ(pieces[0].owner, 0U);
  EXPECT_EQ(pieces[1].tensor, 2U);  // an empty one has no pieces
  EXPECT_EQ(pieces[1].owner, 0U);
  EXPECT_EQ(pieces[1].length, 16'384U);
  EXPECT_EQ(pieces[2].length, 2049U * 4);  // one chunk for each rank
  EXPECT_EQ(pieces[3].owner, 1U);
  const auto of_three = cut(Collective::kAllReduce, std::array<std::uint64_t, 6>{1, 1, 1, 1, 1, 1}, 4, 3, 0, {});
  EXPECT_EQ(of_three.back().owner, 2U) << "owners take turns";
}

TEST(Schedule, ConfiguredSegmentsAndOtherCollectivesKeepTheirChunks) {
  const std::array<std::uint64_t, 1> counts{100};
  EXPECT_EQ(cut(Collective::kAllReduce, counts, 4, 4, 0, {1000}).size(), 4U);
  EXPECT_EQ(cut(Collective::kReduceScatter, counts, 4, 4, 0, {}).size(), 4U);
}

TEST(Schedule, TheRootOwnsABroadcast) {
  const std::array<std::uint64_t, 2> counts{5, 7};
  for (const Piece& piece : cut(Collective::kBroadcast, counts, 4, 3, 2, {})) EXPECT_EQ(piece.owner, 2U);
}

TEST(Schedule, TheRootOwnsAReduceAndNobodyElseReceivesAFinal) {
  const std::array<std::uint64_t, 2> counts{5, 700'000};
  for (const Piece& piece : cut(Collective::kReduce, counts, 4, 3, 2, {})) EXPECT_EQ(piece.owner, 2U);
  EXPECT_TRUE(has_phase(Collective::kReduce, wire::Phase::kReduceScatter));
  EXPECT_FALSE(has_phase(Collective::kReduce, wire::Phase::kAllGather));
}

TEST(Schedule, EmptyBlocksHaveNoSegments) {
  const std::array<std::uint64_t, 3> blocks{8, 0, 4};
  const auto pieces = cut_blocks(blocks, 4, {});
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[1].owner, 2U);
  EXPECT_EQ(pieces[1].offset, 8U);
}

}  // namespace
}  // namespace lockstep::ring
