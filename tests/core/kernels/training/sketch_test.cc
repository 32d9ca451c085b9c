// Sketches, directions and words of Philox compared with the reference, on every instruction set of the machine.
#include "core/kernels/training/sketch.h"

#include <vector>

#include <gtest/gtest.h>

#include "core/kernels/training/reference_sparse.h"
#include "tests/core/kernels/training/floats.h"
#include "tests/support/every_target.h"
#include "tests/support/formats.h"

namespace lockstep::training {
namespace {

using test::Floats;

class Sketch : public test::EveryTarget {};
LOCKSTEP_ON_EVERY_TARGET(Sketch);

TEST(Philox, GivesTheKnownWords) {  // of the authors' file kat_vectors
  constexpr std::uint32_t kOnes = 0xffff'ffffU;
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST_P(Sketch, WordsAreThoseOfEachCounter) {
  for (const std::size_t counters : {0U, 1U, 7U, 8U, 9U, 40U}) {
    std::vector<std::uint32_t> words(4 * counters);
    philox_words(0xffff'ff00U, {1, 0xffff'ffffU, 3}, {4, 0xffff'fff5U}, words);
    for (std::uint32_t i = 0; i < counters; ++i) {
      const auto expected = philox({0xffff'ff00U + i, 1, 0xffff'ffffU, 3}, {4, 0xffff'fff5U});
      for (std::size_t word = 0; word < 4; ++word) ASSERT_EQ(words[std::size_t{4} * i + word], expected[word]) << i;
    }
  }
}

TEST_P(Sketch, IsTheReferenceForAnyCount) {
  for (const std::size_t count : {0U, 1U, 29U, 4096U, 4097U, 12'301U}) {
    for (const std::size_t each : {1U, 410U, 4096U}) {
      const std::size_t last = count % 4096 == 0 ? 0 : (count % 4096 * each + 4095) / 4096;
      const SketchHash hash{.count = count, .each = each, .last = last, .key = {7, 9}, .turn = (3ULL << 32U) + 5};
      ASSERT_TRUE(hash.is_valid());
      const Floats values = test::hostile_floats(each, count);
      Floats buckets(hash.buckets());
      sketch(hash, 0, values, buckets);
      ASSERT_EQ(test::float_bits(buckets), test::float_bits(reference::sketch(hash, values)));
      Floats back(count);
      unsketch(hash, 0, back, buckets);
      ASSERT_EQ(test::float_bits(back), test::float_bits(reference::unsketch(hash, buckets)));
    }
  }
}

TEST_P(Sketch, PiecesGiveTheSketchOfAll) {
  const SketchHash hash{.count = 10'000, .each = 100, .last = 45, .key = {1, 2}, .turn = 3};
  const Floats values = test::hostile_floats(3, 10'000);
  const auto expected = reference::sketch(hash, values);
  Floats buckets(hash.buckets());
  Floats back(10'000);
  for (const std::size_t first : {8192U, 0U, 4096U}) {
    const std::size_t count = std::min<std::size_t>(4096, 10'000 - first);
    sketch(hash, first, std::span(values).subspan(first, count), buckets);
    unsketch(hash, first, std::span(back).subspan(first, count), expected);
  }
  EXPECT_EQ(test::float_bits(buckets), test::float_bits(expected));
  EXPECT_EQ(test::float_bits(back), test::float_bits(reference::unsketch(hash, expected)));
}

TEST_P(Sketch, DirectionsAreBitsOfPhilox) {
  for (const std::size_t count : {0U, 1U, 31U, 32U, 128U, 4096U, 4500U}) {
    Floats values(count);
    direction(1280, {5, 6, 7}, {8, 9}, 0.75F, values);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(values[i], reference::direction(1280 + i, {5, 6, 7}, {8, 9}, 0.75F)) << count << ' ' << i;
  }
}

}  // namespace
}  // namespace lockstep::training
