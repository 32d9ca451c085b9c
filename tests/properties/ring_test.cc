#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>

#include "core/kernels/reference.h"
#include "core/ring/schedule.h"
#include "tests/properties/ring_cases.h"
#include "tests/support/ring_of_operations.h"

namespace lockstep {
namespace {

using ring::Chunk;
using ring::chunk_of;
using wire::Collective;
using wire::Phase;

// Law: for any world size and count, the chunks tile the tensor: no gap, no overlap.
RC_GTEST_PROP(RingSchedule, ChunksTileTheTensor, ()) {
  const auto world = *rc::gen::inRange<std::uint32_t>(1, 65);
  const auto count = *rc::gen::inRange<std::uint64_t>(0, 100'000);
  std::uint64_t next = 0;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    const Chunk chunk = chunk_of(rank, world, count);
    RC_ASSERT(chunk.begin == next);
    next = chunk.end;
  }
  RC_ASSERT(next == count);
}

// Law: the pieces of a call tile its tensors in order, and no piece crosses the border of a chunk.
RC_GTEST_PROP(RingSchedule, PiecesTileTheTensors, ()) {
  const auto world = *rc::gen::inRange<std::uint32_t>(1, 17);
  const auto width = *rc::gen::element<std::uint32_t>(1, 2, 4, 8);
  const auto counts = *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 50'000));
  const auto segment = *rc::gen::oneOf(rc::gen::just<std::uint32_t>(0), rc::gen::inRange<std::uint32_t>(1, 5000));
  const ring::Segmenting segmenting = test::any_segmenting(segment);
  const auto pieces = ring::cut(Collective::kAllReduce, counts, width, world, 0, segmenting);
  RC_ASSERT(pieces.size() == ring::segments_in(Collective::kAllReduce, counts, width, world, segmenting));
  RC_ASSERT(ring::cut_blocks(counts, width, segmenting).size() == ring::segments_in_blocks(counts, width, segmenting));
  RC_ASSERT(ring::cut(Collective::kBroadcast, counts, width, world, 0, segmenting).size() ==
            ring::segments_in(Collective::kBroadcast, counts, width, world, segmenting));
  std::size_t at = 0;
  for (std::uint32_t tensor = 0; tensor < counts.size(); ++tensor) {
    std::uint64_t next = 0;
    for (; at < pieces.size() && pieces[at].tensor == tensor; ++at) {
      const auto& piece = pieces[at];
      const bool whole = ring::goes_whole(Collective::kAllReduce, counts[tensor], width, segment);
      const Chunk chunk = whole ? Chunk{0, counts[tensor]} : chunk_of(piece.owner, world, counts[tensor]);
      RC_ASSERT(piece.owner < world && piece.offset == next);
      RC_ASSERT(piece.length > 0U && piece.length % width == 0U);
      RC_ASSERT(piece.offset >= chunk.begin * width && piece.offset + piece.length <= chunk.end * width);
      next += piece.length;
    }
    RC_ASSERT(next == counts[tensor] * width);
  }
  RC_ASSERT(at == pieces.size());
}

// Law: in each phase a chunk makes exactly world - 1 hops, and every receiver has an upstream neighbour that sends.
RC_GTEST_PROP(RingSchedule, EveryReceiverHasASender, ()) {
  const auto world = *rc::gen::inRange<std::uint32_t>(1, 33);
  const auto owner = *rc::gen::inRange<std::uint32_t>(0, world);
  for (const Phase phase : {Phase::kReduceScatter, Phase::kAllGather}) {
    std::uint32_t hops = 0;
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      const bool receives = ring::part_of(phase, rank, owner, world).receives;
      RC_ASSERT(receives == (world > 1 && ring::part_of(phase, (rank + world - 1) % world, owner, world).sends));
      hops += receives ? 1 : 0;
    }
    RC_ASSERT(hops == world - 1);
  }
}

struct RingCase {
  support::RingOfOperations ring;
  std::uint32_t world;
  std::uint64_t count;
  std::uint32_t segment_bytes;
  [[nodiscard]] Chunk chunk(std::uint32_t owner) const {
    if (!ring::goes_whole(Collective::kAllReduce, count, 4, segment_bytes)) return chunk_of(owner, world, count);
    return {0, owner == 0 ? count : 0};
  }
};

RingCase draw_all_reduce(bool in_place, std::uint64_t seed) {
  const auto world = *rc::gen::inRange<std::uint32_t>(1, 7);
  const auto count = *rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(0, 12), rc::gen::inRange<std::uint64_t>(12, 5000));
  ring::Request request;
  request.collective = Collective::kAllReduce;
  request.type = DataType::kF32;
  request.op = ReduceOp::kSum;
  request.tensors.push_back({{}, {}, count});
  const auto segment = *rc::gen::element<std::uint32_t>(0, 4, 64, 1000);
  const ring::Segmenting segmenting = test::any_segmenting(segment);
  RingCase test{support::RingOfOperations(request, world, in_place, segmenting, seed), world, count, segment};
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    auto* values = reinterpret_cast<float*>(test.ring.input(rank).data());
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t bits = draw(seed, 3, rank, i);
      values[i] = static_cast<float>(static_cast<std::int32_t>(bits)) * ((bits >> 40U) % 2 == 0 ? 1.0F : 1e-6F);
    }
  }
  return test;
}

// Law: an all-reduce is the fold ((x_{c+1} + x_{c+2}) + ...) + x_c of chunk c, bit for bit, on every rank.
RC_GTEST_PROP(RingAllReduce, IsTheExactFoldOnEveryRank, (std::uint64_t seed, bool in_place)) {
  RingCase test = draw_all_reduce(in_place, seed);
  std::vector<float> expected(test.count);
  for (std::uint32_t owner = 0; owner < test.world; ++owner) {
    const Chunk chunk = test.chunk(owner);
    for (std::uint64_t i = chunk.begin; i < chunk.end; ++i) {
      const auto value = [&](std::uint32_t hop) {
        return reinterpret_cast<const float*>(test.ring.input((owner + 1 + hop) % test.world).data())[i];
      };
      float sum = value(0);
      for (std::uint32_t hop = 1; hop < test.world; ++hop) sum = reference::sum(sum, value(hop));
      expected[i] = sum;
    }
  }
  test.ring.run();
  for (std::uint32_t rank = 0; rank < test.world; ++rank) {
    RC_ASSERT(test.ring.operation(rank).complete());
    RC_ASSERT(test.ring.operation(rank).jobs_running() == 0U);
    RC_ASSERT(test.ring.operation(rank).result_hash() == test.ring.operation(0).result_hash());
    // Not inside RC_ASSERT, which evaluates both sides of an `||`.
    const bool same =
        test.count == 0 || std::memcmp(test.ring.result(rank).data(), expected.data(), test.count * 4) == 0;
    RC_ASSERT(same);
  }
}

// Law (S3): an abort at any moment restores the input of an in-place all-reduce.
RC_GTEST_PROP(RingAllReduce, AnAbortRestoresTheInput, (std::uint64_t seed)) {
  RingCase test = draw_all_reduce(true, seed);
  std::vector<std::vector<std::byte>> before;
  for (std::uint32_t rank = 0; rank < test.world; ++rank) before.push_back(test.ring.input(rank));
  test.ring.run(*rc::gen::inRange<std::uint64_t>(0, 200));
  test.ring.abort_all();
  for (std::uint32_t rank = 0; rank < test.world; ++rank) RC_ASSERT(test.ring.input(rank) == before[rank]);
}

}  // namespace
}  // namespace lockstep
