// Laws of all-reduces with wire formats or weights.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/kernels/formats/reference.h"
#include "core/ring/schedule.h"
#include "core/wire/limits.h"
#include "tests/properties/ring_cases.h"
#include "tests/support/formats.h"
#include "tests/support/ring_of_operations.h"

namespace lockstep {
namespace {

using wire::Collective;

struct EncodedCase {
  Formats formats;
  bool direct = false;
  bool asked = true;        // false: the caller leaves the algorithm to the view
  std::uint32_t turns = 0;  // direct
  bool eager = false;
  ReduceOp op = ReduceOp::kAvg;
  std::uint32_t world = 1;
  std::vector<std::uint64_t> counts;
  std::uint32_t segment_bytes = 0;
  bool in_place = false;
  std::vector<float> weights;                 // empty: not weighted
  std::vector<std::vector<float>> inputs;     // by rank, all tensors one after another
  std::vector<std::vector<float>> residuals;  // like inputs; direct only, or empty

  [[nodiscard]] float weight(std::uint32_t rank) const { return weights.empty() ? 1 : weights[rank]; }
  [[nodiscard]] float total() const {
    if (weights.empty()) return static_cast<float>(world);
    return static_cast<float>(std::accumulate(weights.begin(), weights.end(), 0.0));
  }
};

// The counts of some tensors; often small, but never as small as in the first runs of rapidcheck.
std::vector<std::uint64_t> any_counts(std::uint64_t most) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  std::vector<std::uint64_t> counts(below(draw(seed, 1), 4));
  for (std::size_t t = 0; t < counts.size(); ++t)
    counts[t] = below(draw(seed, 2, t), draw(seed, 3, t) % 2 == 0 ? 300 : most);
  // Whole blocks in each of a few chunks, plus a few elements.
  if (!counts.empty() && seed % 3 == 0) counts[0] = 4096 * below(draw(seed, 4), 6) + below(draw(seed, 5), 5);
  return counts;
}

WireFormat any_format_of(std::vector<WireFormat> formats) { return *rc::gen::elementOf(formats); }

EncodedCase any_encoded(std::uint32_t least_world = 2) {
  EncodedCase c;
  c.formats.up = any_format_of({test::kAllFormats.begin(), test::kAllFormats.end()});
  c.direct = bits_of(c.formats.up) < 8 || *rc::gen::arbitrary<bool>();
  c.turns = *rc::gen::inRange<std::uint32_t>(0, 4);
  c.eager = *rc::gen::arbitrary<bool>();
  c.formats.down = any_format_of({test::kAllFormats.begin(), test::kAllFormats.end()});
  c.world = *rc::gen::inRange<std::uint32_t>(least_world, 6);
  c.counts = any_counts(8'000);
  c.segment_bytes = *rc::gen::element<std::uint32_t>(0, 16, 1000, 5000);
  c.in_place = *rc::gen::arbitrary<bool>();
  c.op = *rc::gen::element(ReduceOp::kSum, ReduceOp::kAvg);
  if (c.op == ReduceOp::kAvg && *rc::gen::arbitrary<bool>()) {
    c.weights = *rc::gen::container<std::vector<float>>(c.world, rc::gen::element(0.0F, 0.5F, 1.0F, 3.0F, 1e6F));
    if (c.total() == 0) c.weights.front() = 1;
  }
  const bool only_native = c.formats.native() && c.weights.empty();
  if (only_native && !c.direct) c.formats.up = WireFormat::kInt8;
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const std::uint64_t all = std::accumulate(c.counts.begin(), c.counts.end(), std::uint64_t{0});
  const bool feeds_back = c.direct && *rc::gen::arbitrary<bool>();
  c.asked = feeds_back || only_native || *rc::gen::arbitrary<bool>();
  for (std::uint32_t rank = 0; rank < c.world; ++rank) {
    auto& values = c.inputs.emplace_back(all);
    auto& residual = c.residuals.emplace_back(feeds_back ? all : 0);
    for (std::uint64_t i = 0; i < all; ++i)
      values[i] = test::bell(draw(seed, rank, i)) * (i / 64 % 3 == 0 ? 100.0F : 1.0F);
    for (std::uint64_t i = 0; i < residual.size(); ++i) residual[i] = test::bell(draw(seed, rank, i, 1));
  }
  return c;
}

support::RingOfOperations ring_of(const EncodedCase& c, std::uint64_t seed) {
  ring::Request request;
  request.collective = Collective::kAllReduce;
  request.type = DataType::kF32;
  request.op = c.op;
  request.formats = c.formats;
  const auto algorithm = c.direct ? wire::Algorithm::kDirect : wire::Algorithm::kRing;
  if (c.asked) request.algorithm = algorithm;
  for (const std::uint64_t count : c.counts) request.tensors.push_back({{}, {}, count});
  const ring::Segmenting segmenting{c.segment_bytes, {}, c.formats, algorithm, ring::direct_room(request), c.turns};
  support::RingOfOperations ring(request, c.world, c.in_place, segmenting, seed, c.weights,
                                 !c.residuals.front().empty());
  for (std::uint32_t rank = 0; rank < c.world; ++rank) {
    std::ranges::copy(test::bytes_of(c.inputs[rank]), ring.input(rank).begin());
    std::ranges::copy(test::bytes_of(c.residuals[rank]), ring.residual(rank).begin());
  }
  if (c.eager) ring.send_eagerly();
  return ring;
}

std::vector<float> result_of(support::RingOfOperations& ring, const EncodedCase& c, std::uint32_t rank) {
  std::vector<float> all(c.inputs.front().size());
  const auto bytes = c.in_place ? std::span<std::byte>(ring.input(rank)) : ring.received(rank);
  if (!all.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

// The caller's memory is unchanged.
bool is_kept(support::RingOfOperations& ring, const EncodedCase& c, std::uint32_t rank) {
  return std::ranges::equal(ring.input(rank), test::bytes_of(c.inputs[rank])) &&
         std::ranges::equal(ring.residual(rank), test::bytes_of(c.residuals[rank]));
}

// Law (S2): every rank holds the result of the reference, whatever the segment sizes and their order of arrival. Ring:
// the reference decodes, adds and encodes a chunk at each rank. Direct: it encodes each contribution except the
// owner's. Until then the caller's input is unchanged. A residual is part of a contribution, and afterwards the error
// of its encoding.
RC_GTEST_PROP(EncodedRing, IsTheExactFoldOnEveryRank, (std::uint64_t seed)) {
  const EncodedCase c = any_encoded();
  std::vector<float> expected(c.inputs.front().size());
  auto left = c.residuals;
  float scale = 1;
  const float limit = c.world < 2 ? 2 : c.world < 4 ? 4 : 8;
  while (c.op == ReduceOp::kAvg && c.total() * scale >= limit) scale /= 2;
  while (c.op == ReduceOp::kAvg && c.total() * scale < limit / 2) scale *= 2;
  test::each_chunk(
      c.counts, 4, c.world, c.segment_bytes, [&](std::uint32_t owner, std::uint64_t begin, std::uint64_t size) {
        const auto format_of = [&](WireFormat format) { return ring::format_of_chunk(format, size); };
        reference::Floats sums(size);
        for (std::uint32_t hop = 0; hop < c.world; ++hop) {
          const std::uint32_t rank = (owner + 1 + hop) % c.world;
          const bool last = hop + 1 == c.world;
          auto own = reference::Floats(c.inputs[rank].begin() + static_cast<std::ptrdiff_t>(begin),
                                       c.inputs[rank].begin() + static_cast<std::ptrdiff_t>(begin + size));
          float weight = c.weight(rank) * scale;
          const WireFormat up = format_of(c.formats.up);
          if (!left[rank].empty() && weight != 0) {
            const auto residual = std::span(left[rank]).subspan(begin, size);
            own = reference::add_weighted(std::move(own), 1, residual);
            std::ranges::copy(reference::left_of(last ? WireFormat::kNative : up, weight, own), residual.begin());
          }
          if (c.direct && !last) {
            own = *reference::decode(up, reference::encode(up, reference::weighed(weight, own)), size);
            weight = 1;
          }
          sums = hop == 0 ? reference::weighed(weight, own) : reference::add_weighted(std::move(sums), weight, own);
          if (c.direct && !last) continue;
          if (last && c.op == ReduceOp::kAvg) {
            for (float& sum : sums) sum /= c.total() * scale;
          }
          const WireFormat format = format_of(last ? c.formats.down : c.formats.up);
          sums = *reference::decode(format, reference::encode(format, sums), size);
        }
        std::ranges::copy(sums, expected.begin() + static_cast<std::ptrdiff_t>(begin));
      });
  auto ring = ring_of(c, seed);
  ring.run();
  RC_ASSERT(ring.fault().empty());
  for (std::uint32_t rank = 0; rank < c.world; ++rank) {
    RC_ASSERT(ring.operation(rank).complete());
    RC_ASSERT(ring.operation(rank).result_hash() == ring.operation(0).result_hash());
    RC_ASSERT(is_kept(ring, c, rank));
  }
  RC_ASSERT(ring.slots_in_use() == 0U);
  ring.commit_all();
  for (std::uint32_t rank = 0; rank < c.world; ++rank) {
    const std::vector<float> result = result_of(ring, c, rank);
    const bool same =
        expected.empty() || std::memcmp(result.data(), expected.data(), expected.size() * sizeof(float)) == 0;
    RC_ASSERT(same);
    RC_ASSERT(std::ranges::equal(ring.residual(rank), test::bytes_of(left[rank])));
  }
}

// Law (S3): after an abort at any moment, the input is unchanged.
RC_GTEST_PROP(EncodedRing, AnAbortRestoresTheInput, (std::uint64_t seed)) {
  const EncodedCase c = any_encoded(1);
  auto ring = ring_of(c, seed);
  ring.run(*rc::gen::inRange<std::uint64_t>(0, 40));
  ring.abort_all();
  for (std::uint32_t rank = 0; rank < c.world; ++rank) {
    RC_ASSERT(is_kept(ring, c, rank));
  }
}

// The largest error of an element in a block with the largest magnitude `largest` and the range `range`.
double error_of(WireFormat format, double largest, double range) {
  constexpr double kOfF32 = 1.001;
  switch (format) {
    case WireFormat::kNative: return 0;
    case WireFormat::kBF16: return largest / 256;
    case WireFormat::kF16: return largest / 2048 + 0x1p-24;
    case WireFormat::kInt8: return largest / 254 * kOfF32;
    case WireFormat::kInt8MinMax: return range / 510 * kOfF32 + largest * 0x1p-20;
    case WireFormat::kInt8Codebook: return range;  // unbounded outside of its bins
    case WireFormat::kInt4: return largest / 14 * kOfF32;
    case WireFormat::kE3M0: return largest / 3 * kOfF32;
  }
  LOCKSTEP_UNREACHABLE();
}

// Law: the distance from the exact average is at most the sum of the formats' errors: one for each hop, of the partial
// sum (direct: of the contribution only), and one for the result.
RC_GTEST_PROP(EncodedRing, StaysWithinTheErrorsOfItsFormats, (std::uint64_t seed)) {
  EncodedCase c = any_encoded();
  c.op = ReduceOp::kAvg;
  for (auto& residual : c.residuals) residual.clear();
  auto ring = ring_of(c, seed);
  ring.run();
  ring.commit_all();
  const std::vector<float> result = result_of(ring, c, 0);
  test::each_chunk(c.counts, 4, c.world, c.segment_bytes,
                   [&](std::uint32_t owner, std::uint64_t begin, std::uint64_t size) {
                     const std::size_t block = c.formats.block_elements();
                     for (std::uint64_t at = 0; at < size; at += block) {
                       const std::uint64_t end = std::min<std::uint64_t>(at + block, size);
                       double error = 1e-30;  // of the sum so far, in units of the average
                       std::vector<double> sums(end - at);
                       for (std::uint32_t hop = 0; hop < c.world; ++hop) {
                         const std::uint32_t rank = (owner + 1 + hop) % c.world;
                         const double weight = static_cast<double>(c.weight(rank)) / static_cast<double>(c.total());
                         std::vector<double> own(end - at);
                         for (std::uint64_t i = at; i < end; ++i) {
                           own[i - at] = weight * static_cast<double>(c.inputs[rank][begin + i]);
                           sums[i - at] += own[i - at];
                         }
                         const bool last = hop + 1 == c.world;
                         const bool alone = c.direct && !last;
                         const auto [least, most] = std::ranges::minmax(alone ? own : sums);
                         const double so_far = alone ? 0 : error;
                         const double largest = std::max(std::fabs(least), std::fabs(most)) + so_far;
                         const double range = most - least + 2 * so_far;
                         const WireFormat format = ring::format_of_chunk(last ? c.formats.down : c.formats.up, size);
                         error += error_of(format, largest, range) + largest * 1e-6;
                       }
                       for (std::uint64_t i = at; i < end; ++i) {
                         RC_ASSERT(std::fabs(static_cast<double>(result[begin + i]) - sums[i - at]) <= error);
                       }
                     }
                   });
}

// Law: no encoded segment exceeds its room or the limit of a message, and only the last segment of a chunk is shorter
// than whole blocks.
RC_GTEST_PROP(EncodedRing, PiecesAreWholeBlocksThatFit, ()) {
  const Formats formats{any_format_of({test::kAllFormats.begin(), test::kAllFormats.end()}),
                        any_format_of({test::kAllFormats.begin(), test::kAllFormats.end()})};
  const auto world = *rc::gen::inRange<std::uint32_t>(1, 9);
  const auto segment =
      *rc::gen::oneOf(rc::gen::just<std::uint32_t>(0), rc::gen::inRange<std::uint32_t>(1, kMaxSegmentBytes + 1));
  const auto counts = any_counts(3'000'000);
  ring::Segmenting segmenting = test::any_segmenting(segment, formats);
  if (*rc::gen::arbitrary<bool>()) {
    segmenting.algorithm = wire::Algorithm::kDirect;
    segmenting.room = *rc::gen::inRange<std::uint64_t>(1, 1U << 22U);
  }
  const auto pieces = ring::cut(Collective::kAllReduce, counts, 4, world, 0, segmenting);
  RC_ASSERT(pieces.size() == ring::segments_in(Collective::kAllReduce, counts, 4, world, segmenting));
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const ring::Piece& piece = pieces[i];
    const bool last =
        i + 1 == pieces.size() || pieces[i + 1].owner != piece.owner || pieces[i + 1].tensor != piece.tensor;
    RC_ASSERT(piece.length > 0U && piece.length % 4 == 0 && piece.length <= kMaxSegmentBytes);
    RC_ASSERT(last || piece.length % (formats.block_elements() * 4) == 0);
    for (const ring::Form& form : piece.forms) {
      RC_ASSERT(form.bytes == encoded_size(form.format, piece.length / 4));
      RC_ASSERT(form.bytes <= piece.length);
    }
  }
}

// Law: an element that no format can encode is found, and ends the operation of its rank.
RC_GTEST_PROP(EncodedRing, NamesElementsThatAreNotFinite, (std::uint64_t seed)) {
  EncodedCase c = any_encoded();
  RC_PRE(!c.inputs.front().empty());
  const auto rank = *rc::gen::inRange<std::uint32_t>(0, c.world);
  const auto at = *rc::gen::inRange<std::uint64_t>(0, c.inputs[rank].size());
  c.inputs[rank][at] =
      *rc::gen::element(std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN());
  std::uint64_t tensor = 0;
  std::uint64_t element = at;
  for (; element >= c.counts[tensor]; ++tensor) element -= c.counts[tensor];
  auto ring = ring_of(c, seed);
  ring.run();
  if (c.weight(rank) == 0) {
    RC_ASSERT(ring.fault().empty());  // its weight is 0
    return;
  }
  const std::string place = "tensor " + std::to_string(tensor) + ", element " + std::to_string(element) + ": ";
  RC_ASSERT(ring.fault().substr(0, place.size()) == place);
}

}  // namespace
}  // namespace lockstep
