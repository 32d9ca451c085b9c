// The input that a decoder rejects: everything that no encoder writes. Each case is checked on the fast decoder and on
// the reference.
#include <array>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "core/kernels/formats/codec.h"
#include "core/kernels/formats/reference.h"
#include "tests/support/every_target.h"
#include "tests/support/formats.h"

namespace lockstep::formats {
namespace {

using reference::Bytes;
using reference::Floats;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Malformed : public test::EveryTarget {};
LOCKSTEP_ON_EVERY_TARGET(Malformed);

// An encoding of numbers between -2 and 2: two whole blocks and a short one of an odd size.
class Encoding {
 public:
  explicit Encoding(WireFormat format)
      : format_(format),
        block_(encoded_size(format, layout_of(format).elements)),
        count_(2 * layout_of(format).elements + 5),
        bytes_(reference::encode(format, test::floats_of_style(1, 1, count_))) {}

  // Replaces bytes at an offset from the beginning of a block or, if negative, from its end: in the first, the second
  // and the last block in turn.
  template <typename T>
  void expect_refused(std::ptrdiff_t place, T value) const {
    expect(place, value, false);
  }
  template <typename T>
  void expect_accepted(std::ptrdiff_t place, T value) const {
    expect(place, value, true);
  }
  void expect_sizes_refused() const {
    for (const std::size_t size : {bytes_.size() - 1, std::size_t{0}, block_}) {
      EXPECT_FALSE(accepted(std::span(bytes_).first(size), count_)) << size;
    }
    EXPECT_FALSE(accepted(bytes_, count_ + 2));  // an odd half byte more would fit
    EXPECT_FALSE(accepted(bytes_, 0));
  }

 private:
  template <typename T>
  void expect(std::ptrdiff_t place, T value, bool acceptance) const {
    const std::size_t begins[] = {0, block_, 2 * block_, bytes_.size()};
    for (std::size_t block = 0; block < 3; ++block) {
      Bytes bytes = bytes_;
      const auto at = static_cast<std::ptrdiff_t>(place < 0 ? begins[block + 1] : begins[block]) + place;
      std::memcpy(bytes.data() + at, &value, sizeof(value));
      EXPECT_EQ(accepted(bytes, count_), acceptance) << name_of(format_) << " at " << place << ": " << +value;
    }
  }
  [[nodiscard]] bool accepted(std::span<const std::byte> bytes, std::size_t count) const {
    const bool truth = reference::decode(format_, bytes, count).has_value();
    Floats values(count);
    EXPECT_EQ(decode(format_, std::as_writable_bytes(std::span(values)), bytes), truth);
    EXPECT_EQ(decode_add(format_, std::as_writable_bytes(std::span(values)), bytes, 1.0F), truth);
    return truth;
  }

  WireFormat format_;
  std::size_t block_;
  std::size_t count_;
  Bytes bytes_;
};

TEST_P(Malformed, RefusesWrongSizes) {
  for (const auto format : test::kAllFormats) Encoding(format).expect_sizes_refused();
}

TEST_P(Malformed, NumbersThatAreNotFinite) {
  for (const float bad : {kInfinity, -kInfinity, kNan, -kNan}) {
    Encoding(WireFormat::kNative).expect_refused(0, bad);
    Encoding(WireFormat::kBF16).expect_refused(0, narrow<BF16>(bad).bits);
    Encoding(WireFormat::kF16).expect_refused(0, narrow<F16>(bad).bits);
  }
}

// Negative, denormal, or so large that a code times the scale is not finite.
TEST_P(Malformed, Scales) {
  for (const auto format : {WireFormat::kInt8, WireFormat::kInt4}) {
    const Encoding encoding(format);
    const float most_code = format == WireFormat::kInt8 ? 127.0F : 7.0F;
    float most = std::numeric_limits<float>::max() / most_code;
    while (std::isinf(most * most_code)) most = std::nextafter(most, 0.0F);
    for (const float good : {0x1p-126F, 1.0F, most}) encoding.expect_accepted(-4, good);
    for (const float bad : {0.0F, -0.0F, -1.0F, 0x1.fffffcp-127F, std::nextafter(most, kInfinity), kInfinity, kNan}) {
      encoding.expect_refused(-4, bad);
    }
  }
}

TEST_P(Malformed, RefusesUnknownCodes) {
  Encoding(WireFormat::kInt8).expect_accepted(0, std::int8_t{-127});
  Encoding(WireFormat::kInt8).expect_refused(0, std::int8_t{-128});
  for (const auto format : {WireFormat::kInt4, WireFormat::kE3M0}) {
    for (const auto good : std::to_array<std::uint8_t>({0x00, 0x77, 0xf9, 0x9f}))
      Encoding(format).expect_accepted(0, good);
    for (const auto bad : std::to_array<std::uint8_t>({0x08, 0x80, 0x88, 0xf8, 0x8f}))
      Encoding(format).expect_refused(0, bad);
  }
}

TEST_P(Malformed, TheHalfByteBehindTheLastCode) {
  for (const auto format : {WireFormat::kInt4, WireFormat::kE3M0}) {
    Bytes bytes = reference::encode(format, Floats{1.0F, 1.0F, 1.0F});
    Floats values(3);
    ASSERT_TRUE(decode(format, std::as_writable_bytes(std::span(values)), bytes));
    EXPECT_TRUE(is_encoding(format, bytes, values.size()));
    EXPECT_EQ(values, (Floats{1.0F, 1.0F, 1.0F}));
    bytes[1] |= std::byte{0x10};
    EXPECT_FALSE(decode(format, std::as_writable_bytes(std::span(values)), bytes));
    EXPECT_FALSE(is_encoding(format, bytes, values.size()));
    EXPECT_FALSE(reference::decode(format, bytes, 3));
  }
}

TEST_P(Malformed, LowestValuesAndSteps) {
  const Encoding encoding(WireFormat::kInt8MinMax);
  for (const float good : {0.0F, -0.0F, 0x1p126F, -0x1p126F, 0x1p-149F}) encoding.expect_accepted(-8, good);
  for (const float bad : {0x1.000002p126F, -0x1.000002p126F, kInfinity, -kInfinity, kNan})
    encoding.expect_refused(-8, bad);
  constexpr float kMostStep = 0x1p126F / 127.5F;
  for (const float good : {0x1p-126F, kMostStep}) encoding.expect_accepted(-4, good);
  for (const float bad : {0.0F, -0.0F, -1.0F, 0x1p-149F, std::nextafter(kMostStep, 1e38F), kInfinity, kNan}) {
    encoding.expect_refused(-4, bad);
  }
}

TEST_P(Malformed, Means) {
  const Encoding encoding(WireFormat::kInt8Codebook);
  for (const std::ptrdiff_t place : {-4, -512, -1024}) {
    encoding.expect_accepted(place, -std::numeric_limits<float>::max());
    for (const float bad : {kInfinity, -kInfinity, kNan}) encoding.expect_refused(place, bad);
  }
}

TEST_P(Malformed, Exponents) {
  const Encoding encoding(WireFormat::kE3M0);
  for (const auto good : std::to_array<std::uint8_t>({8, 127, 254})) encoding.expect_accepted(-1, good);
  for (const auto bad : std::to_array<std::uint8_t>({0, 1, 7, 255})) encoding.expect_refused(-1, bad);
}

// Every accepted value is finite, even with the largest accepted scales and codes.
TEST_P(Malformed, DecodedValuesAreFinite) {
  const auto expect_finite = [](WireFormat format, std::uint8_t code, std::initializer_list<float> behind) {
    Bytes bytes;
    for (int i = 0; i < 8; ++i) reference::append(bytes, code);
    for (const float value : behind) reference::append(bytes, value);
    const auto values = reference::decode(format, bytes, format == WireFormat::kInt4 ? 16 : 8);
    ASSERT_TRUE(values) << name_of(format);
    for (const float value : *values) EXPECT_TRUE(std::isfinite(value)) << name_of(format);
  };
  expect_finite(WireFormat::kInt8, 127, {0x1.020406p121F});
  expect_finite(WireFormat::kInt4, 0x77, {std::numeric_limits<float>::max() / 7});
  expect_finite(WireFormat::kInt8MinMax, 255, {0x1p126F, 0x1p126F / 127.5F});
}

}  // namespace
}  // namespace lockstep::formats
