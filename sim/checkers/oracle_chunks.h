// How a call is cut and how it travels, written a second time from the words of bindings/c/include/lockstep.h. Checkers
// ask this file and never core/ring or core/kernels, so that a mistake there is not made here too.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/data_type.h"
#include "core/kernels/formats/format.h"
#include "core/peer/effect.h"
#include "core/ring/request.h"

namespace lockstep::sim::oracle {

// Elements [begin, end) of a tensor.
struct Elements {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  [[nodiscard]] constexpr std::uint64_t size() const { return end - begin; }
};

// Rank r of n gets the r-th of n chunks: count/n elements, one more for r < count % n.
constexpr Elements chunk_of(std::uint64_t rank, std::uint64_t world, std::uint64_t count) {
  const auto border = [&](std::uint64_t r) { return r * (count / world) + std::min(r, count % world); };
  return {border(rank), border(rank + 1)};
}

// A tensor of an all-reduce of at most 16 KiB travels whole, unless the caller has configured segments.
constexpr bool is_one_chunk(wire::Collective collective, std::uint64_t bytes, std::uint32_t segment_bytes) {
  return collective == wire::Collective::kAllReduce && bytes <= 16'384 && segment_bytes == 0;
}
// The ranks take turns to own a tensor that travels whole.
constexpr std::uint64_t owner_of_one_chunk(std::uint64_t tensor, std::uint64_t world) { return tensor % world; }

// One line of the header's table of wire formats.
struct FormatRow {
  std::uint64_t block = 1;             // elements
  std::uint64_t thousandths = 32'000;  // bits per element of a whole block
  std::uint64_t code_bits = 32;        // of which the code of an element takes so many
};
constexpr FormatRow row_of(WireFormat format) {
  switch (format) {
    case WireFormat::kNative: return {1, 32'000, 32};
    case WireFormat::kBF16:
    case WireFormat::kF16: return {1, 16'000, 16};
    case WireFormat::kInt8: return {256, 8'125, 8};
    case WireFormat::kInt8MinMax: return {256, 8'250, 8};
    case WireFormat::kInt8Codebook: return {4096, 10'000, 8};
    case WireFormat::kInt4: return {64, 4'500, 4};
    case WireFormat::kE3M0: return {64, 4'125, 4};
  }
  LOCKSTEP_UNREACHABLE();
}

// Bytes of so many elements. Every block, however short, has the bytes beside its codes that a whole one has.
constexpr std::uint64_t coded_bytes(WireFormat format, std::uint64_t elements) {
  const FormatRow row = row_of(format);
  const std::uint64_t beside = row.block * (row.thousandths - 1000 * row.code_bits) / 8000;
  std::uint64_t bytes = 0;
  for (std::uint64_t left = elements; left > 0; left -= std::min(left, row.block)) {
    if (row.block == 1) return elements * row.code_bits / 8;
    bytes += (std::min(left, row.block) * row.code_bits + 7) / 8 + beside;
  }
  return bytes;
}

// A chunk whose encoding would be no smaller travels as it is.
constexpr WireFormat format_of(WireFormat format, std::uint64_t elements) {
  return coded_bytes(format, elements) < 4 * elements ? format : WireFormat::kNative;
}

// Each block has one sender and one receiver.
constexpr bool is_exchange(wire::Collective collective) {
  using wire::Collective;
  return collective == Collective::kGather || collective == Collective::kScatter || collective == Collective::kAllToAll;
}

// Bytes go around the ring, direct, or in a grid.
constexpr bool has_ways(wire::Collective collective) {
  return !is_exchange(collective) && collective != wire::Collective::kBarrier && collective != wire::Collective::kSync;
}

// The algorithm that the call asks for. AUTO is DIRECT if contributions travel in less than 8 bits; else the view of
// the attempt chooses.
inline wire::Algorithm asked(const ring::Request& request) {
  if (!has_ways(request.collective)) return wire::Algorithm::kRing;
  const bool coarse = row_of(request.formats.up).code_bits < 8;
  return request.algorithm.value_or(coarse ? wire::Algorithm::kDirect : wire::Algorithm::kAuto);
}
// The ways of the bytes of a broadcast or a reduce. A line of 40 ms and 200 Mbit/s has a MiB under way. The root's
// line carries the bytes once for each of the others, in one hop; or twice, in two hops, with the others' help; the
// ring takes as many hops as there are others, and carries the bytes once.
enum class RootWay { kStraight, kThroughOwners, kAround };
constexpr RootWay way_of_root(std::uint64_t bytes, std::uint64_t world) {
  constexpr std::uint64_t kMib = 1U << 20U;
  const std::uint64_t beyond_three = world > 3 ? world - 3 : 0;
  if (bytes <= kMib && bytes * beyond_three <= kMib) return RootWay::kStraight;
  return bytes <= kMib * beyond_three ? RootWay::kThroughOwners : RootWay::kAround;
}
constexpr bool may_go_straight(wire::Collective collective) {
  return collective == wire::Collective::kBroadcast || collective == wire::Collective::kReduce;
}
inline std::uint64_t bytes_of(const ring::Request& request) {
  std::uint64_t bytes = 0;
  for (const ring::Tensor& tensor : request.tensors) bytes += tensor.count * size_of(request.type);
  return bytes;
}
// Whether the receipt of a committed round names the direct algorithm, or the grid.
inline bool is_direct(const peer::Outcome& outcome) { return outcome.way.algorithm == wire::Algorithm::kDirect; }
inline bool is_grid(const peer::Outcome& outcome) { return outcome.way.algorithm == wire::Algorithm::kGrid; }

// The sizes of blocks may differ: the receipt has them.
constexpr bool has_blocks(wire::Collective collective) {
  return collective == wire::Collective::kAllGather || is_exchange(collective);
}

// With a wire format, weights or DIRECT, which allows residuals, sums and averages of f32 are more than copied and
// folded as they come.
inline bool is_encoded(const ring::Request& request) {
  const bool as_it_is = request.formats.up == WireFormat::kNative && request.formats.down == WireFormat::kNative;
  const bool sums = request.op == ReduceOp::kSum || request.op == ReduceOp::kAvg;
  const bool may_feed_back = asked(request) == wire::Algorithm::kDirect && request.type == DataType::kF32 && sums;
  return !as_it_is || request.weight.has_value() || may_feed_back;
}

}  // namespace lockstep::sim::oracle
