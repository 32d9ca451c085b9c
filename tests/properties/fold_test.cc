// Laws of cutting and of the order of folding.
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/ring/schedule.h"
#include "core/wire/limits.h"
#include "tests/properties/ring_cases.h"
#include "tests/support/elements.h"
#include "tests/support/ring_of_operations.h"

namespace lockstep {
namespace {

using ring::Piece;
using test::Bytes;
using wire::Collective;

// Law: chunks differ by at most one element, and the larger ones come first.
RC_GTEST_PROP(RingChunks, DifferByAtMostOneElement, ()) {
  const auto world = *rc::gen::inRange<std::uint32_t>(1, 1025);
  const auto count = *rc::gen::arbitrary<std::uint64_t>() >> *rc::gen::inRange(0, 64);
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    const std::uint64_t size = ring::chunk_of(rank, world, count).size();
    RC_ASSERT(size == count / world + (rank < count % world ? 1 : 0));
  }
  RC_ASSERT(ring::chunk_of(world - 1, world, count).end == count);
}

// Law: however a collective is cut, each byte is in one piece, each piece has whole elements, and no round has too many
// pieces.
RC_GTEST_PROP(RingPieces, ContainEachByteOnce, ()) {
  const auto width = *rc::gen::element<std::uint32_t>(1, 2, 4, 8);
  const auto world = *rc::gen::inRange<std::uint32_t>(1, 17);
  const auto root = *rc::gen::inRange<std::uint32_t>(0, world);
  const auto segment = *rc::gen::oneOf(rc::gen::just<std::uint32_t>(0), rc::gen::inRange<std::uint32_t>(16, 70'000));
  const ring::Segmenting segmenting = test::any_segmenting(segment);
  std::vector<std::uint64_t> counts(world);
  for (std::uint64_t& count : counts) count = *rc::gen::inRange<std::uint64_t>(0, 100'000);
  const auto holds_each_byte = [&](const std::vector<Piece>& pieces, std::uint32_t tensor, std::uint64_t bytes) {
    std::uint64_t next = 0;
    std::uint64_t of_it = 0;
    for (const Piece& piece : pieces) {
      if (piece.tensor != tensor) continue;
      RC_ASSERT(piece.offset == next);
      RC_ASSERT(piece.length > 0U && piece.length % width == 0U && piece.length <= kMaxSegmentBytes);
      RC_ASSERT(piece.owner < world);
      next += piece.length;
      of_it += 1;
    }
    RC_ASSERT(next == bytes);
    RC_ASSERT(of_it <= kMaxSegments);
  };
  for (const auto collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kBroadcast, Collective::kReduce}) {
    const auto pieces = ring::cut(collective, counts, width, world, root, segmenting);
    RC_ASSERT(pieces.size() == ring::segments_in(collective, counts, width, world, segmenting));
    for (std::uint32_t t = 0; t < counts.size(); ++t) holds_each_byte(pieces, t, counts[t] * width);
    const auto of_root = [&](const Piece& piece) { return piece.owner == root; };
    if (wire::has_root(collective)) RC_ASSERT(std::all_of(pieces.begin(), pieces.end(), of_root));
  }
  for (std::uint64_t& count : counts) count *= width;
  const auto blocks = ring::cut_blocks(counts, width, segmenting);
  RC_ASSERT(blocks.size() == ring::segments_in_blocks(counts, width, segmenting));
  holds_each_byte(blocks, 0, std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  std::vector<std::uint64_t> of_rank(world);
  for (const Piece& piece : blocks) of_rank[piece.owner] += piece.length;
  RC_ASSERT(of_rank == counts);
}

struct FoldOfMany {
  DataType type = DataType::kF32;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t world = 1;
  std::vector<std::uint64_t> counts;
  std::uint32_t segment_bytes = 0;
  std::vector<Bytes> inputs;  // by rank, all tensors one after another
};

FoldOfMany any_fold() {
  FoldOfMany c;
  c.type = *rc::gen::elementOf(std::vector<DataType>(std::begin(test::kAllTypes), std::end(test::kAllTypes)));
  c.op = *rc::gen::elementOf(test::ops_of(c.type));
  c.world = *rc::gen::inRange<std::uint32_t>(1, 7);
  c.counts =
      *rc::gen::resize(5, rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 400)));
  c.segment_bytes = *rc::gen::element<std::uint32_t>(0, 16, 64, 1000);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const std::uint64_t all = std::accumulate(c.counts.begin(), c.counts.end(), std::uint64_t{0});
  for (std::uint32_t rank = 0; rank < c.world; ++rank) {
    c.inputs.push_back(test::hostile_elements(c.type, all, draw(seed, rank)));
  }
  return c;
}

// Rank 0's result when segments arrive in an order drawn from `seed`; all ranks have the same result.
Bytes reduced(const FoldOfMany& c, std::uint32_t segment_bytes, std::uint64_t seed) {
  ring::Request request;
  request.collective = Collective::kAllReduce;
  request.type = c.type;
  request.op = c.op;
  for (const std::uint64_t count : c.counts) request.tensors.push_back({{}, {}, count});
  support::RingOfOperations ring(request, c.world, true, {segment_bytes}, seed);
  for (std::uint32_t rank = 0; rank < c.world; ++rank) ring.input(rank) = c.inputs[rank];
  ring.run();
  for (std::uint32_t rank = 0; rank < c.world; ++rank) {
    RC_ASSERT(ring.operation(rank).complete());
    RC_ASSERT(ring.input(rank) == ring.input(0));
  }
  return ring.input(0);
}

// Law: chunk c of every tensor is the fold ((x_{c+1} op x_{c+2}) op ...) op x_c, for every type and operation.
RC_GTEST_PROP(RingFold, IsInRingOrderForEveryTypeAndOperation, ()) {
  const FoldOfMany c = any_fold();
  const std::uint64_t width = size_of(c.type);
  Bytes expected;
  const auto each = [&](std::uint32_t owner, std::uint64_t begin, std::uint64_t size) {
    const auto of = [&](std::uint32_t hop) {
      return std::span(c.inputs[(owner + 1 + hop) % c.world]).subspan(begin * width, size * width);
    };
    Bytes part(of(0).begin(), of(0).end());
    for (std::uint32_t hop = 1; hop < c.world; ++hop) reference::fold(c.type, c.op, part, part, of(hop));
    if (c.op == ReduceOp::kAvg && c.world > 1) reference::divide(c.type, part, c.world);
    expected.insert(expected.end(), part.begin(), part.end());
  };
  test::each_chunk(c.counts, static_cast<std::uint32_t>(width), c.world, c.segment_bytes, each);
  RC_ASSERT(reduced(c, c.segment_bytes, *rc::gen::arbitrary<std::uint64_t>()) == expected);
}

// Law: neither the order of arrival nor the size of segments changes a bit.
RC_GTEST_PROP(RingFold, DoesNotDependOnArrivalsOrSegments, (std::uint64_t one, std::uint64_t other)) {
  const FoldOfMany c = any_fold();
  RC_ASSERT(reduced(c, 16, one) == reduced(c, 48, other));
  RC_ASSERT(reduced(c, 0, one) == reduced(c, 0, other));
}

}  // namespace
}  // namespace lockstep
