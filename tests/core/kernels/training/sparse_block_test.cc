// Blocks of the largest elements, their averages, and the steps of SparseLoCo and DeMo.
#include "core/kernels/training/sparse_block.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/rng.h"
#include "core/kernels/training/reference.h"
#include "core/kernels/training/reference_sparse.h"
#include "core/kernels/training/sparse_step.h"
#include "tests/core/kernels/training/floats.h"
#include "tests/support/every_target.h"
#include "tests/support/formats.h"

namespace lockstep::training {
namespace {

using test::Floats;
using Bytes = std::vector<std::byte>;
using Kind = SparseFlaw::Kind;

// Two tensors of 21 and 9 elements, and an empty one between.
SparseLayout small_layout() { return SparseLayout({{{2, 8, 2}, {1, 5, 2}}, {}, {{1, 9, 3}}}); }

Bytes encoded(const SparseLayout& layout, std::span<const float> values, const SparseHeader& header = {}) {
  SparseEncoder encoder(layout);
  std::size_t at = 0;
  for (auto next = encoder.next(); next; next = encoder.next()) {
    encoder.add(values.subspan(at, next->run.length));
    at += next->run.length;
  }
  Bytes block(encoder.size());
  encoder.write(header, block);
  return block;
}

SparseBlock decoded(const SparseLayout& layout, const Bytes& block) {
  return std::get<SparseBlock>(SparseBlock::decode(layout, block));
}

SparseFlaw flaw_of(const SparseLayout& layout, const Bytes& block) {
  return std::get<SparseFlaw>(SparseBlock::decode(layout, block));
}

// What a block says about a tensor, in an array.
Floats dense(const SparseLayout& layout, const SparseBlock& block, std::size_t tensor) {
  Floats out(layout.elements(tensor));
  std::uint64_t element = block.first_element(tensor);
  for (std::uint64_t chunk = 0; chunk < layout.chunks_of(tensor); ++chunk) {
    const auto begin = layout.chunk(tensor, chunk).begin;
    for (std::uint32_t i = 0; i < block.count(layout.first_chunk(tensor) + chunk); ++i, ++element)
      out[begin + block.place(element)] = block.values(tensor).of_code[block.code(element)];
  }
  EXPECT_EQ(element, block.first_element(tensor) + block.elements_of(tensor));
  return out;
}

TEST(SparseBlock, HasTheDocumentedBytes) {
  const SparseLayout layout({{{1, 5, 3}}});
  const Bytes block = encoded(layout, Floats{0, -1, 4, 0, 1}, {.weight = 2.0F, .has_newcomers = true, .rate = 0.5});
  const std::uint8_t expected[] = {1,    3,    0,    0,    0,    0,    0,    0x40,         0,    0,    0, 0,
                                   0,    0,    0xe0, 0x3f, 3,    0,    0,    0x00,         0x80, 0x3f, 0, 0,
                                   0x80, 0x40, 0x01, 0x20, 0x00, 0x04, 0x00, 0b00'00'01'10};
  ASSERT_EQ(block.size(), sizeof expected);
  EXPECT_EQ(std::memcmp(block.data(), expected, sizeof expected), 0);
}

TEST(SparseBlock, SaysWhatWasPutIn) {
  const SparseLayout layout = small_layout();
  const Floats values = test::finite_floats(1, 30);
  const Bytes bytes = encoded(layout, values, {.weight = 0.5F, .has_newcomers = true, .rate = 7});
  const SparseBlock block = decoded(layout, bytes);
  EXPECT_EQ(block.header().weight, 0.5F);
  EXPECT_TRUE(block.header().has_newcomers);
  EXPECT_EQ(block.header().rate, 7);
  std::size_t at = 0;
  for (std::size_t tensor = 0; tensor < layout.tensors(); ++tensor) {
    const Floats found = dense(layout, block, tensor);
    double energy = 0;
    for (std::uint64_t chunk = 0; chunk < layout.chunks_of(tensor); ++chunk) {
      const auto [run, begin] = layout.chunk(tensor, chunk);
      const auto part = std::span(values).subspan(at + begin, run.length);
      const auto places = reference::keep_largest(part, run.most);
      for (std::uint16_t place = 0; place < run.length; ++place) {
        const float value = found[begin + place];
        const bool is_kept = std::ranges::count(places, place) > 0;
        ASSERT_TRUE(is_kept ? std::signbit(value) == std::signbit(part[place]) : value == 0);
        energy += static_cast<double>(value) * static_cast<double>(value);
      }
    }
    EXPECT_NEAR(block.energy(tensor), energy, energy * 1e-12);
    at += found.size();
  }
}

TEST(SparseBlock, FindsTheFirstFlaw) {
  const SparseLayout layout = small_layout();
  Floats values = test::finite_floats(2, 30);
  const Bytes good = encoded(layout, values);
  const std::size_t fixed = 16 + 2 * 4 + 8 * 3;  // 9 elements behind
  const auto with = [&](std::size_t at, std::initializer_list<int> bytes) {
    Bytes block = good;
    for (const int byte : bytes) block[at++] = static_cast<std::byte>(byte);
    return block;
  };
  EXPECT_EQ(flaw_of(layout, {}).kind, Kind::kShort);
  EXPECT_EQ(flaw_of(layout, Bytes(good.begin(), good.begin() + 20)).allowed, fixed);
  EXPECT_EQ(flaw_of(layout, Bytes(good.begin(), good.end() - 1)).kind, Kind::kLength);
  EXPECT_EQ(flaw_of(layout, with(0, {2})).kind, Kind::kBegin);
  EXPECT_EQ(flaw_of(layout, with(1, {4})).kind, Kind::kBegin);
  EXPECT_EQ(flaw_of(layout, with(2, {1})).kind, Kind::kBegin);
  EXPECT_EQ(flaw_of(layout, with(4, {0, 0, 0, 0x40})).kind, Kind::kWeight);
  EXPECT_EQ(flaw_of(layout, with(16, {3})).allowed, 2U);
  EXPECT_EQ(flaw_of(layout, with(22, {0xff, 0xff})).at, 3U);
  EXPECT_EQ(flaw_of(layout, with(16, {1})).kind, Kind::kLength);
  EXPECT_EQ(flaw_of(layout, with(16 + 8 + 3, {0x80})).kind, Kind::kSizes);        // -0.0 or below
  EXPECT_EQ(flaw_of(layout, with(16 + 8 + 2, {0x80, 0x7f})).kind, Kind::kSizes);  // infinity or a NaN
  EXPECT_EQ(flaw_of(layout, with(fixed, {8, 0x90, 0})).kind, Kind::kOutside);
  EXPECT_EQ(flaw_of(layout, with(fixed, {2, 0x20, 0})).kind, Kind::kOrder);
  EXPECT_EQ(flaw_of(layout, with(fixed + 13, {0xf0})).kind, Kind::kSparePlaces);
  EXPECT_EQ(flaw_of(layout, with(good.size() - 1, {0xfc})).kind, Kind::kSpareCodes);
  values[29] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(flaw_of(layout, encoded(layout, values)).at, 2U);
}

TEST(SparseBlock, ChangedBytesAreRefusedOrHarmless) {
  const SparseLayout layout = small_layout();
  std::uint64_t drawn = 0;
  const auto random = [&](std::uint64_t bound) { return below(draw(3, ++drawn), bound); };
  for (std::uint64_t turn = 0; turn < 3000; ++turn) {
    Bytes block = encoded(layout, test::finite_floats(turn, 30));
    for (int change = 0; change < 3; ++change) block[random(block.size())] = static_cast<std::byte>(random(256));
    if (turn % 3 == 0) block.resize(random(block.size() + 4));
    const auto result = SparseBlock::decode(layout, block);
    if (const auto* good = std::get_if<SparseBlock>(&result)) {
      for (std::size_t tensor = 0; tensor < layout.tensors(); ++tensor)
        for (const float value : dense(layout, *good, tensor)) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

TEST(SparseAverage, CountsWhoHasSentOrAll) {
  const SparseLayout layout({{{1, 3, 3}}});
  const Bytes one = encoded(layout, Floats{4, 2, 0});
  const Bytes two = encoded(layout, Floats{0, 4, 0});
  const auto first = decoded(layout, one);
  const auto second = decoded(layout, two);
  Floats values(3, 5.0F);
  SparseAverage(layout, {&first, &second}, {}).average(0, 0, values);
  EXPECT_EQ(values, (Floats{4, 3, 0}));
  SparseAverage(layout, {&first, &second}, {.counts_absent = true}).average(0, 0, values);
  EXPECT_EQ(values, (Floats{2, 3, 0}));
  SparseAverage(layout, {&second, &first}, {.clips = true}).average(0, 0, values);
  EXPECT_EQ(test::float_bits(values),
            test::float_bits(Floats{4 * static_cast<float>(4 / std::sqrt(20.0)),
                                    (4 + 2 * static_cast<float>(4 / std::sqrt(20.0))) / 2, 0}));
}

class SparseStep : public test::EveryTarget {};
LOCKSTEP_ON_EVERY_TARGET(SparseStep);

// The blocks of two peers, and this peer's state before the step.
struct Peers {
  SparseLayout layout;
  Bytes bytes[2];
  Floats error;
  Floats theta;
  Floats model;

  Peers(std::vector<std::vector<SparseRun>> runs, std::size_t count)
      : layout(std::move(runs)),
        error(test::finite_floats(1, count)),
        theta(test::finite_floats(2, count)),
        model(test::finite_floats(3, count)) {
    bytes[1] = encoded(layout, test::finite_floats(4, count), {.weight = 0.5F});
  }
};

TEST_P(SparseStep, SparseLoCoIsItsEquations) {
  for (const DataType type : {DataType::kF32, DataType::kBF16}) {
    Peers peers({{{3, 4096, 64}, {1, 1000, 16}}}, 13'288);
    const std::size_t count = peers.theta.size();
    Bytes held(count * size_of(type));
    hold({type, held}, peers.model);
    Floats wanted(count);
    difference(wanted, peers.theta, {type, held});
    for (std::size_t i = 0; i < count; ++i) wanted[i] = peers.error[i] * 0.75F + wanted[i];
    peers.bytes[0] = encoded(peers.layout, wanted, {.weight = 1.0F});
    SparseEncoder encoder(peers.layout);
    encode_progress(encoder, std::span(peers.error).first(8192), std::span(peers.theta).first(8192),
                    {type, std::span(held).first(8192 * size_of(type))}, 0.75F);
    encode_progress(encoder, std::span(peers.error).subspan(8192), std::span(peers.theta).subspan(8192),
                    {type, std::span(held).subspan(8192 * size_of(type))}, 0.75F);
    Bytes own_bytes(encoder.size());
    encoder.write({.weight = 1.0F}, own_bytes);
    ASSERT_EQ(own_bytes, peers.bytes[0]);

    const auto own = decoded(peers.layout, peers.bytes[0]);
    const auto other = decoded(peers.layout, peers.bytes[1]);
    const SparseAverage average(peers.layout, {&other, &own}, {});
    Floats mean(count);
    average.average(0, 0, mean);
    Floats theta;
    Floats left;
    const Floats sent = dense(peers.layout, own, 0);
    for (std::size_t i = 0; i < count; ++i) {
      theta.push_back(reference::sgd_step(peers.theta[i], mean[i], 0.7F));
      left.push_back(wanted[i] - sent[i]);
    }
    using Part = std::array<std::size_t, 3>;
    for (const Part& chosen : {Part{4096, count, 1}, {0, 4096, 0}}) {
      const std::size_t begin = chosen[0];
      const std::size_t end = chosen[1];
      const std::size_t first = chosen[2];
      const auto part = [&](auto& values) { return std::span(values).subspan(begin, end - begin); };
      const auto model = std::span(held).subspan(begin * size_of(type), (end - begin) * size_of(type));
      sparse_step(average, {.own = &own, .at = {0, first}, .decay = 0.75F, .lr = 0.7F}, part(peers.error),
                  part(peers.theta), {type, model}, {type, model});
    }
    EXPECT_EQ(test::float_bits(peers.theta), test::float_bits(theta));
    EXPECT_EQ(test::float_bits(peers.error), test::float_bits(left));
    Bytes stored(held.size());
    hold({type, stored}, theta);
    EXPECT_EQ(held, stored);
  }
}

TEST_P(SparseStep, DeMoIsItsEquations) {
  using Form = std::array<std::size_t, 4>;
  for (const Form& form : {Form{64, 64, 2, 3}, {1, 64, 1, 90}, {5, 7, 4, 130}}) {
    const std::size_t height = form[0];
    const std::size_t width = form[1];
    const std::size_t down = form[2];
    const std::size_t across = form[3];
    const TileDct dct(height, width);
    const std::size_t rows = height * down;
    const std::size_t columns = width * across;
    const auto most = static_cast<std::uint32_t>(std::min<std::size_t>(32, dct.size()));
    Peers peers({{{down * across, static_cast<std::uint32_t>(dct.size()), most}}}, rows * columns);
    const Floats gradient = test::finite_floats(9, rows * columns);
    Floats wanted(rows * columns);
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = peers.error[i] * 0.875F + gradient[i] * 0.25F;
    // The tiles of a matrix, one after the other, and back.
    const auto tile_at = [&](std::size_t tile, std::size_t i) {
      const std::size_t row = tile / across * height + i / width;
      return row * columns + tile % across * width + i % width;
    };
    Floats coefficients;
    for (std::size_t tile = 0; tile < down * across; ++tile) {
      Floats values;
      for (std::size_t i = 0; i < dct.size(); ++i) values.push_back(wanted[tile_at(tile, i)]);
      const Floats transformed = reference::dct(values, height, width);
      coefficients.insert(coefficients.end(), transformed.begin(), transformed.end());
    }
    peers.bytes[0] = encoded(peers.layout, coefficients);
    const Tiles tiles{.dct = &dct, .down = down, .across = across, .stride = columns};
    const auto memory = std::as_bytes(std::span(gradient));
    const TileGradients gradients{.memory = memory.data(), .stride = columns};
    SparseEncoder encoder(peers.layout);
    encode_momentum(encoder, tiles, peers.error.data(), gradients, {.decay = 0.875F, .lr = 0.25F});
    Bytes own_bytes(encoder.size());
    encoder.write({}, own_bytes);
    ASSERT_EQ(own_bytes, peers.bytes[0]) << height << ' ' << width;

    const auto own = decoded(peers.layout, peers.bytes[0]);
    const auto other = decoded(peers.layout, peers.bytes[1]);
    const SparseAverage average(peers.layout, {&own, &other}, {});
    const auto inverse = [&](const Floats& of) {
      Floats out(of.size());
      for (std::size_t tile = 0; tile < down * across; ++tile) {
        const auto values = reference::inverse_dct(std::span(of).subspan(tile * dct.size(), dct.size()), height, width);
        for (std::size_t i = 0; i < dct.size(); ++i) out[tile_at(tile, i)] = values[i];
      }
      return out;
    };
    Floats mean(wanted.size());
    average.average(0, 0, mean);
    mean = inverse(mean);
    const Floats sent = inverse(dense(peers.layout, own, 0));
    Floats theta;
    Floats left;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      left.push_back(wanted[i] - sent[i]);
      const float sign = mean[i] > 0 ? 1.0F : mean[i] < 0 ? -1.0F : 0.0F;
      theta.push_back(peers.theta[i] * 0.9F - 0.25F * sign);
    }
    const TileModel model{.memory = std::as_writable_bytes(std::span(peers.model)).data(), .stride = columns};
    const SignStep step{.own = &own, .at = {}, .rates = {.decay = 0.875F, .lr = 0.25F}, .remains = 0.9F};
    sign_step(average, step, tiles, peers.error.data(), peers.theta.data(), gradients, model);
    EXPECT_EQ(test::float_bits(peers.theta), test::float_bits(theta)) << height << ' ' << width;
    EXPECT_EQ(test::float_bits(peers.error), test::float_bits(left)) << height << ' ' << width;
    EXPECT_EQ(test::float_bits(peers.model), test::float_bits(theta)) << height << ' ' << width;
  }
}

TEST_P(SparseStep, WithoutWeightEverythingStaysInTheError) {
  Peers peers({{{2, 50, 5}}}, 100);
  const auto other = decoded(peers.layout, peers.bytes[1]);
  const SparseAverage average(peers.layout, {&other}, {});
  Floats expected(100);
  for (std::size_t i = 0; i < 100; ++i) expected[i] = peers.error[i] * 0.5F + (peers.theta[i] - peers.model[i]);
  const Floats model = peers.model;
  sparse_step(average, {.own = nullptr, .at = {}, .decay = 0.5F, .lr = 1}, peers.error, peers.theta,
              {DataType::kF32, std::as_bytes(std::span(peers.model))}, {});
  EXPECT_EQ(peers.model, model);
  EXPECT_EQ(test::float_bits(peers.error), test::float_bits(expected));
}

}  // namespace
}  // namespace lockstep::training
