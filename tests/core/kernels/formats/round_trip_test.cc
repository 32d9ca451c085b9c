// Values that a format represents exactly, values that it flushes to zero, and values that it clamps.
#include <limits>

#include <gtest/gtest.h>

#include "core/kernels/formats/codec.h"
#include "core/kernels/formats/reference.h"
#include "tests/support/formats.h"

namespace lockstep::formats {
namespace {

using reference::Bytes;
using reference::Floats;

constexpr float kMost = std::numeric_limits<float>::max();

Floats round_trip(WireFormat format, const Floats& values) {
  Bytes encoded(encoded_size(format, values.size()));
  EXPECT_EQ(encode(format, encoded, test::bytes_of(values)), std::nullopt);
  Floats decoded(values.size());
  EXPECT_TRUE(decode(format, std::as_writable_bytes(std::span(decoded)), encoded));
  return decoded;
}

void expect_kept(WireFormat format, const Floats& values) {
  const Floats decoded = round_trip(format, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(decoded[i]), std::bit_cast<std::uint32_t>(values[i]))
        << name_of(format) << ' ' << i << ": " << values[i] << " became " << decoded[i];
  }
}

TEST(RoundTrip, KeepsNumbersOfTheFormat) {
  expect_kept(WireFormat::kNative, test::hostile_floats(1, 1000));
  Floats halves;
  Floats brains;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float half = widen(F16{static_cast<std::uint16_t>(bits)});
    const float brain = widen(BF16{static_cast<std::uint16_t>(bits)});
    if (std::isfinite(half)) halves.push_back(half);
    if (std::isfinite(brain)) brains.push_back(brain);
  }
  expect_kept(WireFormat::kF16, halves);
  expect_kept(WireFormat::kBF16, brains);
}

TEST(RoundTrip, KeepsMultiplesOfAStep) {
  for (const float step : {0x1p-118F, 0x1p-20F, 1.0F, 0x1p100F}) {
    Floats eight;
    Floats four;
    Floats between;
    for (int code = -127; code <= 127; ++code) eight.push_back(static_cast<float>(code) * step);
    for (int code = -7; code <= 7; ++code) four.push_back(static_cast<float>(code) * step);
    for (int code = 0; code <= 255; ++code) between.push_back(static_cast<float>(code + 1000) * step);
    expect_kept(WireFormat::kInt8, eight);
    expect_kept(WireFormat::kInt4, four);
    expect_kept(WireFormat::kInt8MinMax, between);
  }
}

TEST(RoundTrip, KeepsABlockOfOneValue) {
  for (const float value : {0.0F, 1.0F, -1e-3F, 0x1p-149F, -0x1p126F}) {
    expect_kept(WireFormat::kInt8MinMax, Floats(300, value));
  }
}

TEST(RoundTrip, KeepsValuesThatAreAloneInTheirBin) {
  Floats values;
  for (std::size_t i = 0; i < 5000; ++i)
    values.push_back(std::array{-3.0F, -1.0F, 0.0F, 2.0F, 5.5F}[draw(1, 1, i) % 5]);
  expect_kept(WireFormat::kInt8Codebook, values);
}

TEST(RoundTrip, KeepsPowersOfTwoBelowTheBlocks) {
  for (const int top : {-119, 0, 127}) {
    Floats values;
    for (int below = 0; below <= 6; ++below) {
      values.push_back(std::ldexp(1.0F, top - below));
      values.push_back(-values.back());
    }
    expect_kept(WireFormat::kE3M0, values);
  }
}

TEST(RoundTrip, E3M0RoundsAtThreeQuartersAndFlushesBelow) {
  const float below = std::nextafter(0.75F, 0.0F);
  EXPECT_EQ(round_trip(WireFormat::kE3M0, {1.0F, 0.75F, -below, 0.75F * 0x1p-6F, below * 0x1p-6F, -0x1p-140F}),
            (Floats{1.0F, 1.0F, -0.5F, 0x1p-6F, 0.0F, 0.0F}));
  // The power of two of the block is rounded, too: below 1.5 it is 1, from there on 2. Then the smallest value that is
  // not flushed is twice as large.
  EXPECT_EQ(round_trip(WireFormat::kE3M0, {std::nextafter(1.5F, 0.0F), 0x1p-6F}), (Floats{1.0F, 0x1p-6F}));
  EXPECT_EQ(round_trip(WireFormat::kE3M0, {1.5F, 0x1p-6F, 0x1.8p-6F}), (Floats{2.0F, 0.0F, 0x1p-5F}));
  const Floats clipped = round_trip(WireFormat::kE3M0, {kMost, -0x1p126F});  // 2^128 is no f32
  EXPECT_EQ(clipped, (Floats{0x1p127F, -0x1p126F}));
  EXPECT_FALSE(std::signbit(round_trip(WireFormat::kE3M0, {1.0F, -0x1p-30F})[1]));
}

TEST(RoundTrip, SmallBlocksAreZero) {
  for (const auto format : {WireFormat::kInt8, WireFormat::kInt4, WireFormat::kE3M0}) {
    const float below = std::nextafter(0x1p-119F, 0.0F);
    expect_kept(format, {0x1p-119F, 0.0F});
    EXPECT_EQ(round_trip(format, {below, -below, 0x1p-149F}), (Floats{0.0F, 0.0F, 0.0F})) << name_of(format);
    const Bytes zeros = reference::encode(format, Floats{below, -below, 0x1p-149F});
    EXPECT_EQ(zeros, Bytes(zeros.size())) << name_of(format);
  }
  expect_kept(WireFormat::kInt8Codebook, {0x1p-98F, 0.0F});
  EXPECT_EQ(round_trip(WireFormat::kInt8Codebook, {0x1.fffffep-99F, -0x1p-100F}), (Floats{0.0F, 0.0F}));
  EXPECT_EQ(round_trip(WireFormat::kInt8MinMax, {0x1.fffffep-119F, 0.0F}), (Floats{0.0F, 0.0F}));
}

TEST(RoundTrip, ClampsToTheLargestNumber) {
  EXPECT_EQ(round_trip(WireFormat::kF16, {65504.0F, 65505.0F, 1e9F, -kMost}),
            (Floats{65504.0F, 65504.0F, 65504.0F, -65504.0F}));
  const float brain = widen(BF16{0x7f7f});
  EXPECT_EQ(round_trip(WireFormat::kBF16, {kMost, -kMost, brain}), (Floats{brain, -brain, brain}));
  EXPECT_EQ(round_trip(WireFormat::kInt8MinMax, {kMost, kMost}), (Floats{0x1p126F, 0x1p126F}));
}

// The scale of a short block depends on its own values only.
TEST(RoundTrip, TailsAreSeparateBlocks) {
  Floats values(257, 1000.0F);
  values[256] = 1e-3F;
  EXPECT_EQ(round_trip(WireFormat::kInt8, values)[256], 127.0F * (1e-3F / 127.0F));
}

}  // namespace
}  // namespace lockstep::formats
