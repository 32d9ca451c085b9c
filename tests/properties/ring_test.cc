#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "core/kernels/reference.h"
#include "core/ring/choice.h"
#include "core/ring/schedule.h"
#include "tests/properties/ring_cases.h"
#include "tests/support/elements.h"
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

// All ranks have ended without a fault, and agree.
void expect_complete(const support::RingOfOperations& ring, std::uint32_t world) {
  RC_ASSERT(ring.fault().empty());
  RC_ASSERT(ring.slots_in_use() == 0U);
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    RC_ASSERT(ring.operation(rank).complete());
    RC_ASSERT(ring.operation(rank).jobs_running() == 0U);
    RC_ASSERT(ring.operation(rank).result_hash() == ring.operation(0).result_hash());
  }
}

// ---- all algorithms, native ----

constexpr wire::Algorithm kAll[] = {wire::Algorithm::kRing, wire::Algorithm::kDirect, wire::Algorithm::kGrid};

// An all-reduce of any type and operation, with special values, whose algorithm the caller leaves to the view.
struct NativeCase {
  DataType type = DataType::kU8;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t world = 1;
  std::vector<std::uint64_t> counts;
  std::uint32_t segment_bytes = 0;
  std::uint32_t turns = 0;  // direct
  bool in_place = false;
  bool eager = false;
  std::uint64_t seed = 0;
  std::vector<test::Bytes> inputs;  // by rank, all tensors one after another
};

NativeCase any_native(std::uint64_t seed) {
  NativeCase c;
  c.type = *rc::gen::elementOf(std::vector<DataType>(std::begin(test::kAllTypes), std::end(test::kAllTypes)));
  c.op = *rc::gen::elementOf(test::ops_of(c.type));
  c.world = draw(seed, 8) % 4 == 0 ? *rc::gen::inRange<std::uint32_t>(7, 12) : *rc::gen::inRange<std::uint32_t>(1, 7);
  c.segment_bytes = *rc::gen::element<std::uint32_t>(0, 16, 1000, 5000);
  c.turns = *rc::gen::inRange<std::uint32_t>(0, 4);
  c.in_place = *rc::gen::arbitrary<bool>();
  c.eager = *rc::gen::arbitrary<bool>();
  c.seed = seed;
  c.counts.resize(1 + below(draw(seed, 4), 3));
  std::uint64_t all = 0;
  for (std::size_t t = 0; t < c.counts.size(); ++t) {
    const std::uint64_t most = draw(seed, 5, t) % 4 == 0 ? 40'000 : 400;  // bytes: some tensors are cut
    c.counts[t] = below(draw(seed, 6, t), most) / size_of(c.type);
    all += c.counts[t];
  }
  for (std::uint32_t rank = 0; rank < c.world; ++rank) {
    c.inputs.push_back(test::hostile_elements(c.type, all, draw(seed, 7, rank)));
  }
  return c;
}

support::RingOfOperations ring_of(const NativeCase& c, wire::Algorithm algorithm) {
  ring::Request request;
  request.collective = Collective::kAllReduce;
  request.type = c.type;
  request.op = c.op;
  for (const std::uint64_t count : c.counts) request.tensors.push_back({{}, {}, count});
  const ring::Segmenting segmenting{c.segment_bytes, {}, {}, algorithm, ring::direct_room(request), c.turns};
  support::RingOfOperations ring(request, c.world, c.in_place, segmenting, c.seed);
  for (std::uint32_t rank = 0; rank < c.world; ++rank) std::ranges::copy(c.inputs[rank], ring.input(rank).begin());
  if (c.eager) ring.send_eagerly();
  return ring;
}

// What a rank has added up in elements [begin, begin + size) of all tensors: what its children have, in order, and then
// its own. Around the ring and direct, the owner has one row of children.
test::Bytes sum_at(const NativeCase& c, const ring::Grid& grid, std::uint32_t rank, std::uint32_t owner,
                   std::uint64_t begin, std::uint64_t size) {
  const std::span own = std::span(c.inputs[rank]).subspan(begin, size);
  test::Bytes sum;
  const auto add = [&](std::span<const std::byte> term) {
    if (sum.empty()) return sum.assign(term.begin(), term.end());
    reference::fold(c.type, c.op, sum, sum, term);
  };
  for (std::uint32_t i = 0; i < grid.children(rank, owner) && size > 0; ++i)
    add(sum_at(c, grid, grid.child(rank, owner, i), owner, begin, size));
  add(own);
  return sum;
}

test::Bytes exact_fold_of(const NativeCase& c, wire::Algorithm algorithm) {
  const auto width = static_cast<std::uint32_t>(size_of(c.type));
  test::Bytes expected(c.inputs.front().size());
  const ring::Grid grid = ring::grid_of(algorithm, c.world);
  const auto fold_chunk = [&](std::uint32_t owner, std::uint64_t begin, std::uint64_t size) {
    if (size == 0) return;
    test::Bytes sum = sum_at(c, grid, owner, owner, begin * width, size * width);
    if (c.op == ReduceOp::kAvg && c.world > 1) reference::divide(c.type, sum, c.world);
    std::ranges::copy(sum, expected.begin() + static_cast<std::ptrdiff_t>(begin * width));
  };
  test::each_chunk(c.counts, width, c.world, c.segment_bytes, fold_chunk, algorithm);
  return expected;
}

// Law (S2): the ring and the direct algorithm give the same bytes, those of the fold, of any type and operation; a grid
// those of its own fold. All but the ring leave the input as it is until the commit, also in place.
RC_GTEST_PROP(NativeAllReduce, AllAlgorithmsGiveTheExactFold, (std::uint64_t seed)) {
  const NativeCase c = any_native(seed);
  for (const wire::Algorithm algorithm : kAll) {
    const test::Bytes expected = exact_fold_of(c, algorithm);
    auto ring = ring_of(c, algorithm);
    ring.run();
    expect_complete(ring, c.world);
    for (std::uint32_t rank = 0; rank < c.world; ++rank) {
      const bool keeps = !c.in_place || wire::has_owners(algorithm);
      RC_ASSERT(!keeps || ring.input(rank) == c.inputs[rank]);
    }
    ring.commit_all();
    for (std::uint32_t rank = 0; rank < c.world; ++rank) {
      const bool same = std::ranges::equal(c.in_place ? std::span(ring.input(rank)) : ring.received(rank), expected);
      RC_ASSERT(same);
    }
  }
}

// Law (S3): after an abort at any moment, the input is unchanged, also in place.
RC_GTEST_PROP(NativeAllReduce, AnAbortRestoresTheInput, (std::uint64_t seed)) {
  const NativeCase c = any_native(seed);
  const auto steps = *rc::gen::inRange<std::uint64_t>(0, 100);
  for (const wire::Algorithm algorithm : kAll) {
    auto ring = ring_of(c, algorithm);
    ring.run(steps);
    ring.abort_all();
    for (std::uint32_t rank = 0; rank < c.world; ++rank) RC_ASSERT(ring.input(rank) == c.inputs[rank]);
  }
}

// Law: all algorithms move the same bytes: 2 (n - 1) times the tensors, over all ranks.
RC_GTEST_PROP(NativeAllReduce, AllAlgorithmsMoveTheSameBytes, (std::uint64_t seed)) {
  const NativeCase c = any_native(seed);
  for (const wire::Algorithm algorithm : kAll) {
    auto ring = ring_of(c, algorithm);
    ring.run();
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    for (std::uint32_t rank = 0; rank < c.world; ++rank) {
      sent += ring.operation(rank).bytes_sent();
      received += ring.operation(rank).bytes_received();
    }
    RC_ASSERT(sent == std::uint64_t{2} * (c.world - 1) * c.inputs.front().size());
    RC_ASSERT(received == sent);
  }
}

// ---- all ways: reduce-scatter, reduce, broadcast, all-gather ----

struct OtherCase {
  ring::Request request;
  std::uint32_t world = 1;
  std::uint32_t root = 0;
  std::uint32_t segment_bytes = 0;
  bool in_place = false;  // all-gather
  bool eager = false;
  std::uint64_t seed = 0;
  std::vector<std::uint64_t> blocks;  // all-gather
  std::vector<test::Bytes> inputs;    // by rank, all tensors one after another
  [[nodiscard]] std::size_t width() const { return size_of(request.type); }
};

OtherCase any_other(Collective collective, std::uint64_t seed) {
  OtherCase c;
  c.request.collective = collective;
  c.request.type = *rc::gen::elementOf(std::vector<DataType>(std::begin(test::kAllTypes), std::end(test::kAllTypes)));
  c.request.op = *rc::gen::elementOf(test::ops_of(c.request.type));
  c.world = draw(seed, 9) % 2 == 0 ? *rc::gen::inRange<std::uint32_t>(9, 20) : *rc::gen::inRange<std::uint32_t>(1, 9);
  c.root = *rc::gen::inRange<std::uint32_t>(0, c.world);
  c.in_place = collective == Collective::kAllGather && *rc::gen::arbitrary<bool>();
  c.eager = *rc::gen::arbitrary<bool>();
  c.seed = seed;
  const bool one = collective == Collective::kReduceScatter || collective == Collective::kAllGather;
  const std::size_t tensors = one ? 1 : 1 + below(draw(seed, 4), 3);
  // Among seven ranks and more, a root sends so many bytes straight or through owners.
  const bool large = wire::has_root(collective) && *rc::gen::arbitrary<bool>();
  const std::uint64_t most = large ? 400'000 : *rc::gen::element<std::uint64_t>(40, 4000);
  c.segment_bytes = large ? 0 : *rc::gen::element<std::uint32_t>(0, 16, 1000);
  std::uint64_t all = 0;
  for (std::size_t t = 0; t < tensors; ++t) {
    c.request.tensors.push_back({{}, {}, below(draw(seed, 6, t), most / tensors) / c.width()});
    all += c.request.tensors.back().count;
  }
  for (std::uint32_t rank = 0; rank < c.world; ++rank) {
    if (collective == Collective::kAllGather) c.blocks.push_back(all = below(draw(seed, 8, rank), most) / c.width());
    c.inputs.push_back(test::hostile_elements(c.request.type, all, draw(seed, 7, rank)));
  }
  return c;
}

// The fold that ends at this rank, of all elements.
test::Bytes fold_ending_at(const OtherCase& c, std::uint32_t last) {
  test::Bytes folded = c.inputs[(last + 1) % c.world];
  for (std::uint32_t hop = 1; hop < c.world; ++hop)
    reference::fold(c.request.type, c.request.op, folded, folded, c.inputs[(last + 1 + hop) % c.world]);
  if (c.request.op == ReduceOp::kAvg && c.world > 1) reference::divide(c.request.type, folded, c.world);
  return folded;
}

// In a grid: what a rank has added up in all elements, for this owner.
test::Bytes sum_below(const OtherCase& c, const ring::Grid& grid, std::uint32_t rank, std::uint32_t owner) {
  test::Bytes sum;
  const auto add = [&](const test::Bytes& term) {
    if (sum.empty())
      sum = term;
    else
      reference::fold(c.request.type, c.request.op, sum, sum, term);
  };
  for (std::uint32_t i = 0; i < grid.children(rank, owner); ++i)
    add(sum_below(c, grid, grid.child(rank, owner, i), owner));
  add(c.inputs[rank]);
  return sum;
}

test::Bytes fold_of_owner(const OtherCase& c, std::uint32_t owner, wire::Algorithm algorithm) {
  if (algorithm != wire::Algorithm::kGrid) return fold_ending_at(c, owner);
  test::Bytes sum = sum_below(c, ring::Grid::square(c.world), owner, owner);
  if (c.request.op == ReduceOp::kAvg && c.world > 1) reference::divide(c.request.type, sum, c.world);
  return sum;
}

// In a grid each chunk of a reduce of many bytes is folded in the order of its owner.
test::Bytes reduced(const OtherCase& c, wire::Algorithm algorithm) {
  const bool in_chunks =
      algorithm == wire::Algorithm::kGrid && ring::is_cut(algorithm, c.inputs.front().size(), c.world);
  if (!in_chunks) return fold_of_owner(c, c.root, algorithm);
  const ring::Grid grid = ring::Grid::square(c.world);
  test::Bytes result(c.inputs.front().size());
  for (std::uint32_t index = 0; index < grid.owners(); ++index) {
    const test::Bytes folded = fold_of_owner(c, grid.owner(index), algorithm);
    std::size_t base = 0;
    for (const ring::Tensor& tensor : c.request.tensors) {
      const Chunk chunk = chunk_of(index, grid.owners(), tensor.count);
      const auto from = static_cast<std::ptrdiff_t>((base + chunk.begin) * c.width());
      std::copy_n(folded.begin() + from, chunk.size() * c.width(), result.begin() + from);
      base += tensor.count;
    }
  }
  return result;
}

// The bytes that the rank has in the end: empty where the rank gets no result.
test::Bytes expected_of(const OtherCase& c, std::uint32_t rank, wire::Algorithm algorithm) {
  switch (c.request.collective) {
    case Collective::kReduce: return rank == c.root ? reduced(c, algorithm) : test::Bytes{};
    case Collective::kBroadcast: return c.inputs[c.root];
    case Collective::kAllGather: {
      test::Bytes all;
      for (const test::Bytes& block : c.inputs) all.insert(all.end(), block.begin(), block.end());
      return all;
    }
    default: break;
  }
  const Chunk chunk = chunk_of(rank, c.world, c.request.tensors.front().count);
  const test::Bytes folded = fold_of_owner(c, rank, algorithm);
  const auto at = [&](std::uint64_t element) {
    return folded.begin() + static_cast<std::ptrdiff_t>(element * c.width());
  };
  return {at(chunk.begin), at(chunk.end)};
}

// Law (S2): whatever way the bytes go, each rank has what the collective promises, bit for bit, and the inputs are as
// they were. All ranks agree on the hash of what is equal.
void check_all_ways(Collective collective, std::uint64_t seed) {
  OtherCase c = any_other(collective, seed);
  const wire::Algorithm far = ring::choose(ring::descriptor_of(c.request, 0), c.world, ring::Reach::kAll);
  for (const wire::Algorithm algorithm : {wire::Algorithm::kRing, far, wire::Algorithm::kGrid}) {
    if (algorithm == wire::Algorithm::kGrid) c.request.algorithm = algorithm;
    const ring::Segmenting segmenting{c.segment_bytes, {}, {}, algorithm, 0, 0};
    support::RingOfOperations ring(c.request, c.world, c.in_place, segmenting, c.seed, {}, false, c.root, c.blocks);
    for (std::uint32_t rank = 0; rank < c.world; ++rank) {
      const std::span own = c.blocks.empty() ? std::span(ring.input(rank)) : ring.block(rank);
      std::ranges::copy(c.inputs[rank], own.begin());
      if (collective == Collective::kBroadcast && rank == c.root)
        std::ranges::copy(c.inputs[rank], ring.received(rank).begin());
    }
    if (c.eager) ring.send_eagerly();
    ring.run();
    expect_complete(ring, c.world);
    for (std::uint32_t rank = 0; rank < c.world; ++rank) {
      const test::Bytes expected = expected_of(c, rank, algorithm);
      const std::span all = c.in_place ? std::span(ring.input(rank)) : ring.received(rank);
      RC_ASSERT(all.size() >= expected.size());
      const bool same = std::ranges::equal(all.first(expected.size()), expected);
      RC_ASSERT(same);
      RC_ASSERT(c.in_place ||
                std::ranges::equal(std::span(ring.input(rank)).first(c.inputs[rank].size()), c.inputs[rank]));
    }
  }
}
RC_GTEST_PROP(AllWays, AReduceScatterIsTheExactFold, (std::uint64_t seed)) {
  check_all_ways(Collective::kReduceScatter, seed);
}
RC_GTEST_PROP(AllWays, AReduceIsTheFoldThatEndsAtItsRoot, (std::uint64_t seed)) {
  check_all_ways(Collective::kReduce, seed);
}
RC_GTEST_PROP(AllWays, ABroadcastIsACopyOfItsRoots, (std::uint64_t seed)) {
  check_all_ways(Collective::kBroadcast, seed);
}
RC_GTEST_PROP(AllWays, AnAllGatherHasAllBlocksInOrder, (std::uint64_t seed)) {
  check_all_ways(Collective::kAllGather, seed);
}

// Law (rule 58): whoever owns what, the bits of an all-reduce are those of the ring, for all types and operations.
RC_GTEST_PROP(ByRate, SharesChangeNoBit, (std::uint64_t seed)) {
  OtherCase c = any_other(Collective::kAllReduce, seed);
  const bool in_place = *rc::gen::arbitrary<bool>();
  const auto rates = *rc::gen::container<std::vector<ring::Rate>>(c.world, rc::gen::element<ring::Rate>(0, 1, 10, 99));
  std::vector<test::Bytes> results;
  for (const wire::Algorithm algorithm : {wire::Algorithm::kRing, wire::Algorithm::kDirect}) {
    const bool by_rate = algorithm == wire::Algorithm::kDirect;
    const ring::Segmenting segmenting{
        c.segment_bytes, {}, {}, algorithm, ring::direct_room(c.request), *rc::gen::element<std::uint32_t>(0, 1, 3),
        by_rate};
    const std::vector<ring::Rate> told = by_rate && c.world > 1 ? rates : std::vector<ring::Rate>{};
    support::RingOfOperations ring(c.request, c.world, in_place, segmenting, c.seed, {}, false, 0, {}, told);
    for (std::uint32_t rank = 0; rank < c.world; ++rank) std::ranges::copy(c.inputs[rank], ring.input(rank).begin());
    if (c.eager) ring.send_eagerly();
    ring.run();
    expect_complete(ring, c.world);
    ring.commit_all();
    for (std::uint32_t rank = 0; rank < c.world; ++rank) {
      const std::span all = in_place ? std::span(ring.input(rank)) : ring.received(rank);
      const auto bytes = static_cast<std::ptrdiff_t>(c.inputs[rank].size());
      results.emplace_back(all.begin(), all.begin() + bytes);
      RC_ASSERT(results.back() == results.front());
    }
  }
}

}  // namespace
}  // namespace lockstep
