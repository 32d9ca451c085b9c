#include "core/kernels/formats/format.h"

#include <gtest/gtest.h>

#include "tests/support/formats.h"

namespace lockstep {
namespace {

TEST(WireFormat, NamesAreUnique) {
  for (const auto format : test::kAllFormats) EXPECT_EQ(wire_format_named(name_of(format)), format);
  EXPECT_EQ(wire_format_named("int8-min-max"), WireFormat::kInt8MinMax);
  EXPECT_EQ(wire_format_named("int9"), std::nullopt);
  EXPECT_EQ(wire_format_named(""), std::nullopt);
}

TEST(WireFormat, EncodedSize) {
  const auto expect_sizes = [](WireFormat format, std::initializer_list<std::pair<std::size_t, std::size_t>> sizes) {
    for (const auto& [elements, bytes] : sizes) {
      EXPECT_EQ(encoded_size(format, elements), bytes) << name_of(format) << ' ' << elements;
    }
  };
  expect_sizes(WireFormat::kNative, {{0, 0}, {1, 4}, {1000, 4000}});
  expect_sizes(WireFormat::kBF16, {{0, 0}, {1, 2}, {1000, 2000}});
  expect_sizes(WireFormat::kF16, {{0, 0}, {1, 2}, {1000, 2000}});
  expect_sizes(WireFormat::kInt8, {{0, 0}, {1, 5}, {256, 260}, {257, 265}, {512, 520}});
  expect_sizes(WireFormat::kInt8MinMax, {{0, 0}, {1, 9}, {256, 264}, {257, 273}});
  expect_sizes(WireFormat::kInt8Codebook, {{0, 0}, {1, 1025}, {4096, 5120}, {4097, 6145}});
  expect_sizes(WireFormat::kInt4, {{0, 0}, {1, 5}, {2, 5}, {3, 6}, {64, 36}, {65, 41}, {128, 72}});
  expect_sizes(WireFormat::kE3M0, {{0, 0}, {1, 2}, {2, 2}, {3, 3}, {64, 33}, {65, 35}, {128, 66}});
}

// The number that strategies for slow links depend on: bits on the wire for each parameter.
TEST(WireFormat, BitsOfAParameter) {
  const auto bits = [](WireFormat format) { return static_cast<double>(encoded_size(format, 1 << 20)) / (1 << 17); };
  EXPECT_EQ(bits(WireFormat::kInt8), 8.125);
  EXPECT_EQ(bits(WireFormat::kInt8MinMax), 8.25);
  EXPECT_EQ(bits(WireFormat::kInt8Codebook), 10);
  EXPECT_EQ(bits(WireFormat::kInt4), 4.5);
  EXPECT_EQ(bits(WireFormat::kE3M0), 4.125);
}

}  // namespace
}  // namespace lockstep
