// The oracles of the checkers compared with the shipped code, on drawn inputs: every type, operation and wire format,
// with special values. Both share no arithmetic, so they agree only if both are right, or both misread the
// specification.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/kernels/formats/codec.h"
#include "core/kernels/formats/reference.h"
#include "core/kernels/reduce.h"
#include "core/kernels/run_job.h"
#include "core/ring/grid.h"
#include "core/ring/operation.h"
#include "core/ring/request.h"
#include "core/ring/schedule.h"
#include "sim/checkers/oracle_chunks.h"
#include "sim/checkers/oracle_codec.h"
#include "sim/checkers/oracle_elements.h"
#include "sim/checkers/oracle_grid.h"
#include "tests/support/elements.h"
#include "tests/support/formats.h"

namespace lockstep::sim {
namespace {

using test::kAllFormats;
using test::kAllTypes;

RC_GTEST_PROP(Oracle, FoldsLikeTheKernels, ()) {
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1'000'000);
  const auto count = *rc::gen::inRange<std::size_t>(0, 200);
  for (const DataType type : kAllTypes) {
    for (const ReduceOp op : test::ops_of(type)) {
      const oracle::Bytes a = test::hostile_elements(type, count, seed);
      const oracle::Bytes b = test::hostile_elements(type, count, seed + 1'000'000);
      oracle::Bytes by_kernel(a.size());
      fold(type, op, by_kernel, a, b);
      RC_ASSERT(oracle::fold(type, op, a, b) == by_kernel);
    }
  }
}

RC_GTEST_PROP(Oracle, DividesLikeTheKernels, ()) {
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1'000'000);
  const auto count = *rc::gen::inRange<std::size_t>(0, 200);
  const auto contributors = *rc::gen::inRange<std::uint32_t>(1, 1025);
  for (const DataType type : test::types_with_average()) {
    oracle::Bytes by_oracle = test::hostile_elements(type, count, seed);
    oracle::Bytes by_kernel = by_oracle;
    oracle::divide(type, by_oracle, contributors);
    divide(type, by_kernel, contributors);
    RC_ASSERT(by_oracle == by_kernel);
  }
}

TEST(Oracle, ReadsAndWritesEverySmallFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    for (const DataType type : {DataType::kF16, DataType::kBF16}) {
      const float number = oracle::number_of(type, half);
      const float shipped = type == DataType::kF16 ? widen(F16{half}) : widen(BF16{half});
      ASSERT_TRUE(std::isnan(number) ? std::isnan(shipped)
                                     : std::bit_cast<std::uint32_t>(number) == std::bit_cast<std::uint32_t>(shipped));
      if (std::isnan(number)) continue;
      ASSERT_EQ(oracle::bits_of_nearest(type, number), half);
    }
  }
}

RC_GTEST_PROP(Oracle, RoundsToTheNearestSmallFloat, ()) {
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1'000'000'000);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(draw(seed, i, 0)));
    RC_ASSERT(oracle::bits_of_nearest(DataType::kF16, value) == narrow<F16>(value).bits);
    RC_ASSERT(oracle::bits_of_nearest(DataType::kBF16, value) == narrow<BF16>(value).bits);
  }
}

// Whole blocks and odd tails: one element, one less or one more than a block.
std::size_t any_tail(WireFormat format) {
  const std::uint64_t block = oracle::row_of(format).block;
  const auto blocks = *rc::gen::inRange<std::uint64_t>(0, block > 1000 ? 2 : 3);
  const auto tail = *rc::gen::element<std::uint64_t>(0, 1, 2, block / 2, block - 1);
  return blocks * block + tail % block;
}

RC_GTEST_PROP(Oracle, EncodesAndDecodesLikeTheKernels, ()) {
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1'000'000);
  const auto style = *rc::gen::inRange<std::uint64_t>(0, 2 * test::kStyles);
  for (const WireFormat format : kAllFormats) {
    const std::size_t count = any_tail(format);
    const auto values =
        style < test::kStyles ? test::floats_of_style(style, seed, count) : test::hostile_floats(seed, count);
    RC_ASSERT(oracle::coded_bytes(format, count) == encoded_size(format, count));
    oracle::Bytes by_kernel(encoded_size(format, count));
    RC_ASSERT(!encode(format, by_kernel, test::bytes_of(values)));
    const oracle::Bytes by_oracle = oracle::encode(format, values);
    RC_ASSERT(by_oracle == by_kernel);
    std::vector<float> decoded(count);
    RC_ASSERT(decode(format, std::as_writable_bytes(std::span(decoded)), by_kernel));
    const oracle::Floats again = oracle::decode(format, by_oracle, count);
    // An empty array has no address to compare, and RC_ASSERT evaluates both sides of an `||`.
    if (count > 0) RC_ASSERT(std::memcmp(decoded.data(), again.data(), count * sizeof(float)) == 0);
  }
}

// The table in the header, for any encoder. f32 arithmetic adds a small part of the largest value to the errors.
RC_GTEST_PROP(Oracle, ErrorsAreWithinTheTableOfTheHeader, ()) {
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1'000'000);
  for (const WireFormat format : kAllFormats) {
    const auto count = *rc::gen::inRange<std::size_t>(1, oracle::row_of(format).block + 1);
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = 100 * test::bell(draw(seed, 7, i));
    const oracle::Floats decoded = oracle::decode(format, oracle::encode(format, values), count);
    double largest = 0;
    for (const float value : values) largest = std::max(largest, std::fabs(static_cast<double>(value)));
    for (std::size_t i = 0; i < count; ++i) {
      const auto bound = oracle::largest_error(format, values, i);
      if (!bound) continue;
      RC_ASSERT(std::fabs(static_cast<double>(decoded[i]) - values[i]) <= *bound * (1 + 0x1p-12) + largest * 0x1p-20);
    }
  }
}

RC_GTEST_PROP(Oracle, CutsLikeTheSchedule, ()) {
  const auto world = *rc::gen::inRange<std::uint32_t>(1, 65);
  const auto count = *rc::gen::inRange<std::uint64_t>(0, 100'000);
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    const ring::Chunk shipped = ring::chunk_of(rank, world, count);
    const oracle::Elements chunk = oracle::chunk_of(rank, world, count);
    RC_ASSERT(chunk.begin == shipped.begin && chunk.end == shipped.end);
    RC_ASSERT(oracle::owner_of_one_chunk(rank, world) == rank % world);
    for (const WireFormat format : kAllFormats) {
      RC_ASSERT(oracle::format_of(format, chunk.size()) == ring::format_of_chunk(format, chunk.size()));
    }
  }
  for (const std::uint32_t segment : {0U, 1024U}) {
    for (const DataType type : kAllTypes) {
      const auto bytes = static_cast<std::uint32_t>(size_of(type));
      for (const auto collective : {wire::Collective::kAllReduce, wire::Collective::kReduceScatter}) {
        RC_ASSERT(oracle::is_one_chunk(collective, count * bytes, segment) ==
                  ring::goes_whole(collective, count, bytes, segment));
      }
    }
  }
}

// Law: in a grid, the terms of the oracle are what the core's tree adds up: the ranks below each child of the owner, in
// order, and then the owner.
TEST(Oracle, AddsUpAGridLikeTheTree) {
  for (std::uint32_t world = 1; world <= 130; ++world) {
    const ring::Grid grid = ring::Grid::square(world);
    const oracle::Ranks owners = oracle::owners_in_grid(world);
    ASSERT_EQ(owners.size(), grid.owners()) << world;
    for (std::uint32_t number = 0; number < grid.owners(); ++number)
      ASSERT_EQ(owners[number], grid.owner(number)) << world;
    for (std::uint32_t owner = 0; owner < world; ++owner) {
      std::vector<oracle::Ranks> terms;
      for (std::uint32_t i = 0; i < grid.children(owner, owner); ++i) {
        const std::uint32_t child = grid.child(owner, owner, i);
        ASSERT_EQ(grid.index_of_child(owner, owner, child), i);
        ASSERT_EQ(grid.parent(child, owner), owner);
        ASSERT_TRUE(grid.are_linked(child, owner) && grid.are_linked(owner, child));
        oracle::Ranks& term = terms.emplace_back();
        for (std::uint32_t k = 0; k < grid.children(child, owner); ++k) {
          term.push_back(grid.child(child, owner, k));
          ASSERT_EQ(grid.index_of_child(child, owner, static_cast<std::uint32_t>(term.back())), k);
          ASSERT_EQ(grid.parent(static_cast<std::uint32_t>(term.back()), owner), child);
        }
        term.push_back(child);
      }
      terms.push_back({owner});
      ASSERT_EQ(terms, oracle::terms_in_grid(world, owner)) << world << ", " << owner;
      std::set<std::uint64_t> all;
      for (const oracle::Ranks& term : terms) all.insert(term.begin(), term.end());
      ASSERT_EQ(all.size(), world) << "each contribution counts once";
    }
  }
}

// Law: below each owner, whether it stands in a column or not, the tree holds all other ranks once, and each of its
// hops has a link. The oracle lists the same ranks.
TEST(Grid, EachRankHasATree) {
  for (std::uint32_t world = 1; world <= 130; ++world) {
    const ring::Grid grid = ring::Grid::square(world);
    const std::vector<oracle::Ranks> rows = oracle::rows_of(world);
    for (std::uint32_t owner = 0; owner < world; ++owner) {
      std::multiset<std::uint64_t> all = {owner};
      for (std::uint32_t rank = 0; rank < world; ++rank) {
        std::multiset<std::uint64_t> below;
        for (std::uint32_t i = 0; i < grid.children(rank, owner); ++i) {
          const std::uint32_t child = grid.child(rank, owner, i);
          ASSERT_EQ(grid.index_of_child(rank, owner, child), i);
          ASSERT_EQ(grid.parent(child, owner), rank) << world << ", " << owner;
          ASSERT_TRUE(grid.are_linked(child, rank) && grid.are_linked(rank, child));
          below.insert(child);
        }
        const oracle::Ranks listed = oracle::below_in_grid(rows, rank, owner);
        ASSERT_EQ(below, (std::multiset<std::uint64_t>(listed.begin(), listed.end()))) << world << ", " << owner;
        all.insert(below.begin(), below.end());
      }
      ASSERT_EQ(all.size(), world);
      ASSERT_EQ(std::set<std::uint64_t>(all.begin(), all.end()).size(), world) << owner;
    }
  }
}

// A rank has as many links as its row and its column have other ranks: of 1,024 ranks 62.
TEST(Grid, KeepsTheLinksFew) {
  for (const auto& [world, most] : {std::pair(4U, 2U), {65U, 15U}, {256U, 30U}, {1023U, 62U}, {1024U, 62U}}) {
    const ring::Grid grid = ring::Grid::square(world);
    EXPECT_EQ(grid.most_children(), most);
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      std::uint32_t links = 0;
      for (std::uint32_t other = 0; other < world; ++other) links += grid.are_linked(rank, other) ? 1 : 0;
      ASSERT_LE(links, most) << world << ", " << rank;
    }
  }
}

// Of every all-reduce that a peer accepts.
TEST(Oracle, ChoosesAlgorithmsLikePeers) {
  std::size_t accepted = 0;
  const auto expect_alike = [&](const ring::Request& request) {
    if (ring::validate_encoding(request)) return;
    ++accepted;
    EXPECT_EQ(oracle::asked(request), ring::algorithm_of(request));
    EXPECT_EQ(oracle::is_encoded(request), ring::is_encoded(request));
  };
  for (const WireFormat up : kAllFormats) {
    for (const WireFormat down : kAllFormats) {
      for (const DataType type : kAllTypes) {
        for (const ReduceOp op : test::ops_of(type)) {
          for (const int form : {0, 1, 2, 3, 4, 5, 6, 7}) {
            ring::Request request;
            request.collective = wire::Collective::kAllReduce;
            request.type = type;
            request.op = op;
            request.formats = {up, down};
            if (form % 4 > 0) request.algorithm = static_cast<wire::Algorithm>(form % 4 - 1);
            if (form / 4 > 0) request.weight = 2.0F;
            expect_alike(request);
          }
        }
      }
    }
  }
  EXPECT_GT(accepted, 100U);
}

// Around each border of a grid's ways.
TEST(Oracle, KnowsTheWayOfARootInAGrid) {
  for (std::uint32_t world = 2; world <= 1024; world += world < 130 ? 1 : 149) {
    const std::uint64_t links = std::max(2U, ring::Grid::square(world).most_children());
    const std::uint64_t most = ring::kUnderWay * (world > 5 ? world - 5 : 1);
    for (const std::uint64_t border : {ring::kUnderWay, 2 * ring::kUnderWay / (links - 1), most}) {
      for (const std::uint64_t bytes : {border - 1, border, border + 1}) {
        const oracle::RootWay way = oracle::way_of_root_in_grid(bytes, world);
        EXPECT_EQ(way != oracle::RootWay::kStraight, ring::is_cut(wire::Algorithm::kGrid, bytes, world)) << bytes;
        EXPECT_EQ(way != oracle::RootWay::kAround, ring::pays_in_grid(bytes, world)) << bytes << ' ' << world;
      }
    }
  }
}

// The caller of another collective chooses no algorithm: the view does, where there are two.
TEST(Oracle, KnowsWhichCollectivesHaveTwoWays) {
  for (std::uint8_t collective = 0; collective < wire::kCollectiveCount; ++collective) {
    ring::Request request;
    request.collective = static_cast<wire::Collective>(collective);
    if (request.collective == wire::Collective::kAllReduce) continue;
    const bool has_two = oracle::has_ways(request.collective);
    EXPECT_EQ(wire::has_choice(request.collective), has_two);
    EXPECT_EQ(oracle::asked(request), has_two ? wire::Algorithm::kAuto : wire::Algorithm::kRing);
    EXPECT_EQ(ring::algorithm_of(request), oracle::asked(request));
  }
}

// Where the root's bytes go, around each border.
TEST(Oracle, KnowsTheWayOfARoot) {
  for (std::uint32_t world = 2; world <= 64; ++world) {
    const std::uint64_t others = world > 3 ? world - 3 : 1;
    for (const std::uint64_t border : {ring::kUnderWay, ring::kUnderWay / others, ring::kUnderWay * others}) {
      for (const std::uint64_t bytes : {border - 1, border, border + 1}) {
        const oracle::RootWay way = oracle::way_of_root(bytes, world);
        EXPECT_EQ(way == oracle::RootWay::kStraight, ring::goes_straight(bytes, world)) << bytes << ' ' << world;
        EXPECT_EQ(way == oracle::RootWay::kThroughOwners, ring::goes_through_owners(bytes, world))
            << bytes << ' ' << world;
      }
    }
  }
}

// Weights of 0, tiny and huge weights.
RC_GTEST_PROP(Oracle, AddsWeightsLikePeers, ()) {
  const auto world = *rc::gen::inRange<std::size_t>(1, 9);
  std::vector<float> weights;
  std::vector<std::uint64_t> bits;
  for (std::size_t rank = 0; rank < world; ++rank) {
    weights.push_back(*rc::gen::element(0.0F, 0x1p-149F, 0x1.8p-140F, 0x1p-126F, 0.3F, 1.0F, 1000.0F, 0x1p127F,
                                        std::numeric_limits<float>::max()));
    bits.push_back(std::bit_cast<std::uint32_t>(weights.back()));
  }
  const oracle::Weights oracle(weights);
  const float shipped = ring::total_weight(bits);
  RC_ASSERT(oracle.total() == shipped);
  RC_ASSERT(oracle.valid() == (shipped > 0 && std::isfinite(shipped)));
}

// Residuals compared with the kernel's, also for weights whose reciprocal exceeds an f32.
RC_GTEST_PROP(Oracle, ComputesResidualsLikeTheKernel, ()) {
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1'000'000);
  const auto weight = *rc::gen::element(0x1p-149F, 0x1.8p-140F, 0x1p-128F, 0x1p-126F, 0.3F, 1.0F, 3.0F);
  for (const WireFormat format : kAllFormats) {
    const std::size_t count = any_tail(format);
    std::vector<float> values(count);
    std::vector<float> residual(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = std::ldexp(test::bell(draw(seed, 8, i)), static_cast<int>(below(draw(seed, 9, i), 60)));
      residual[i] = test::bell(draw(seed, 10, i));
    }
    const oracle::Floats wanted = oracle::lost_of(format, weight, oracle::add_weighted(values, 1, residual));
    UpdateResidualJob job;
    job.count = count;
    job.departs = format;
    job.weight = weight;
    run_job(job, {}, std::as_bytes(std::span(values)), {}, std::as_writable_bytes(std::span(residual)));
    if (count > 0) RC_ASSERT(std::memcmp(residual.data(), wanted.data(), count * sizeof(float)) == 0);
  }
}

}  // namespace
}  // namespace lockstep::sim
