// The fast codecs compared with the reference, on every instruction set of the machine.
#include "core/kernels/formats/codec.h"

#include <algorithm>
#include <array>
#include <cfenv>
#include <limits>

#include <gtest/gtest.h>

#include "core/kernels/formats/reference.h"
#include "tests/support/every_target.h"
#include "tests/support/formats.h"
#include "tests/support/golden_formats.h"

namespace lockstep::formats {
namespace {

using reference::Bytes;
using reference::Floats;
using test::bytes_of;
using test::kAllFormats;

// Bytes at a chosen distance from an aligned address, between others that must not change.
class Misplaced {
 public:
  Misplaced(std::span<const std::byte> bytes, std::size_t alignment)
      : at_(64 + alignment), size_(bytes.size()), memory_(at_ + size_ + 64, kAround) {
    std::ranges::copy(bytes, span().begin());
  }
  std::span<std::byte> span() { return std::span(memory_).subspan(at_, size_); }
  [[nodiscard]] bool surroundings_untouched() const {
    const std::span all(memory_);
    const auto is_around = [](std::byte byte) { return byte == kAround; };
    return std::ranges::all_of(all.first(at_), is_around) && std::ranges::all_of(all.subspan(at_ + size_), is_around);
  }

 private:
  static constexpr std::byte kAround{0xa5};
  std::size_t at_;
  std::size_t size_;
  Bytes memory_;
};

bool same(std::span<const std::byte> a, std::span<const std::byte> b) { return std::ranges::equal(a, b); }

Floats added(const Floats& sums, float weight, const Floats& values) {
  Floats result;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    result.push_back(reference::add_weighted(sums[i], weight, values[i]));
  }
  return result;
}

class Codec : public test::EveryTarget {};
LOCKSTEP_ON_EVERY_TARGET(Codec);

// Encodes, decodes and adds at some alignment, and compares with the reference.
void expect_truth(WireFormat format, const Floats& values, std::size_t alignment) {
  const Bytes encoded = reference::encode(format, values);
  const Floats decoded = reference::decode(format, encoded, values.size()).value();
  Misplaced from(bytes_of(values), alignment % 17);
  Misplaced fast(Bytes(encoded.size()), alignment * 5 % 19);
  ASSERT_EQ(encode(format, fast.span(), from.span()), std::nullopt);
  ASSERT_TRUE(same(fast.span(), encoded));
  ASSERT_TRUE(same(from.span(), bytes_of(values)));
  ASSERT_TRUE(decode(format, from.span(), fast.span()));
  ASSERT_TRUE(same(from.span(), bytes_of(decoded)));
  ASSERT_TRUE(is_encoding(format, fast.span(), values.size()));
  weigh(from.span(), bytes_of(values), 0.3F);
  ASSERT_TRUE(same(from.span(), bytes_of(reference::weighed(0.3F, values))));

  const Floats sums = test::hostile_floats(alignment, values.size());
  Misplaced into(bytes_of(sums), alignment * 3 % 23);
  ASSERT_TRUE(decode_add(format, into.span(), fast.span(), 0.7F));
  ASSERT_TRUE(same(into.span(), bytes_of(added(sums, 0.7F, decoded))));
  ASSERT_TRUE(from.surroundings_untouched() && fast.surroundings_untouched() && into.surroundings_untouched());
}

TEST_P(Codec, AnyLengthAndAnyAlignment) {
  for (const auto format : kAllFormats) {
    SCOPED_TRACE(name_of(format));
    for (std::size_t count = 0; count <= 140; ++count) expect_truth(format, test::hostile_floats(count, count), count);
    for (const std::size_t count : {255U, 256U, 257U, 513U}) {
      expect_truth(format, test::hostile_floats(count, count), count);
    }
  }
}

TEST_P(Codec, WholeBlocksOfEveryStyle) {
  for (const auto format : kAllFormats) {
    SCOPED_TRACE(name_of(format));
    const std::size_t count = 2 * layout_of(format).elements + 65;
    for (std::uint64_t style = 0; style < test::kStyles; ++style) {
      SCOPED_TRACE(style);
      expect_truth(format, test::floats_of_style(style, style, count), style);
    }
  }
}

// Every pair of upper bytes, which contain sign and exponent, as values and as decoded values.
TEST_P(Codec, NumbersOfEveryExponent) {
  Floats values;
  Bytes numbers;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto value = std::bit_cast<float>(i << 16U | static_cast<std::uint32_t>(draw(1, 1, i) & 0xffffU));
    if (std::isfinite(value)) values.push_back(value);
    if (std::isfinite(widen(F16{static_cast<std::uint16_t>(i)})))
      reference::append(numbers, static_cast<std::uint16_t>(i));
  }
  for (const auto format : {WireFormat::kNative, WireFormat::kBF16, WireFormat::kF16}) {
    expect_truth(format, values, 1);
  }
  Floats decoded(numbers.size() / 2);
  ASSERT_TRUE(decode(WireFormat::kF16, std::as_writable_bytes(std::span(decoded)), numbers));
  EXPECT_TRUE(same(bytes_of(decoded), bytes_of(*reference::decode(WireFormat::kF16, numbers, decoded.size()))));
}

TEST_P(Codec, FindsTheFirstValueThatIsNotFinite) {
  constexpr std::array kBad = {0x7f80'0000U, 0xff80'0000U, 0x7fc0'0000U, 0x7f80'0001U, 0xffff'ffffU};
  for (const auto format : kAllFormats) {
    for (std::size_t at = 0; at < 600; at += 1 + at % 7) {
      Floats values = test::floats_of_style(1, at, 600);
      values[at] = std::bit_cast<float>(kBad[at % kBad.size()]);
      values[599] = std::bit_cast<float>(0x7fc0'0000U);
      Bytes encoded(encoded_size(format, values.size()));
      ASSERT_EQ(encode(format, encoded, bytes_of(values)), at) << name_of(format);
    }
  }
}

TEST_P(Codec, TheNextEncoderFindsSumsThatOverflow) {
  const Floats values(100, std::numeric_limits<float>::max());
  Floats sums(100, std::numeric_limits<float>::max());
  const auto sum_bytes = std::as_writable_bytes(std::span(sums));
  ASSERT_TRUE(decode_add(WireFormat::kNative, sum_bytes, bytes_of(values), 1.0F));
  Bytes encoded(encoded_size(WireFormat::kInt8, 100));
  EXPECT_EQ(encode(WireFormat::kInt8, encoded, sum_bytes), 0);
}

// Infinity - infinity is a NaN whose bits differ between machines.
TEST_P(Codec, NaNsInSumsAreCanonical) {
  const Floats values(20, -std::numeric_limits<float>::max());
  Floats sums(20, std::numeric_limits<float>::infinity());
  ASSERT_TRUE(decode_add(WireFormat::kNative, std::as_writable_bytes(std::span(sums)), bytes_of(values), 2.0F));
  for (const float sum : sums) EXPECT_EQ(std::bit_cast<std::uint32_t>(sum), kNanBits<float>);
}

TEST_P(Codec, AWeightedAverage) {
  Floats sums(3, 0.0F);
  const auto sum_bytes = std::as_writable_bytes(std::span(sums));
  ASSERT_TRUE(decode_add(WireFormat::kNative, sum_bytes, bytes_of({1.0F, 2.0F, -4.0F}), 3.0F));
  ASSERT_TRUE(
      decode_add(WireFormat::kE3M0, sum_bytes, reference::encode(WireFormat::kE3M0, Floats{2.0F, -1.0F, 0.5F}), 1.0F));
  divide_sums(sum_bytes, 4.0F);
  EXPECT_EQ(sums, (Floats{1.25F, 1.25F, -2.875F}));
}

// A tensor may be cut between blocks, and sent in pieces.
TEST_P(Codec, PiecesCutBetweenBlocksEncodeLikeTheWhole) {
  for (const auto format : kAllFormats) {
    const std::size_t block = layout_of(format).elements;
    const Floats values = test::hostile_floats(5, 3 * block + 7);
    Bytes whole(encoded_size(format, values.size()));
    ASSERT_EQ(encode(format, whole, bytes_of(values)), std::nullopt);
    Bytes pieces;
    for (std::size_t at = 0; at < values.size(); at += 2 * block) {
      const auto piece = bytes_of(values).subspan(at * 4, std::min(2 * block, values.size() - at) * 4);
      Bytes encoded(encoded_size(format, piece.size() / 4));
      ASSERT_EQ(encode(format, encoded, piece), std::nullopt);
      pieces.insert(pieces.end(), encoded.begin(), encoded.end());
    }
    EXPECT_EQ(pieces, whole) << name_of(format);
  }
}

// Rounds downward and, on x86, flushes denormals to zero, as a library does that was built with -ffast-math.
class BadEnvironment {
 public:
  BadEnvironment() {
    std::fegetenv(&before_);
    std::fesetround(FE_DOWNWARD);
#if defined(__SSE__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040U);
#endif
  }
  ~BadEnvironment() { std::fesetenv(&before_); }
  BadEnvironment(const BadEnvironment&) = delete;
  BadEnvironment& operator=(const BadEnvironment&) = delete;

 private:
  std::fenv_t before_{};
};

TEST_P(Codec, IgnoresTheCallersFloatEnvironment) {
  for (const auto format : kAllFormats) {
    const Floats values = test::hostile_floats(3, 9000);
    const Bytes truth = reference::encode(format, values);
    const Floats decoded = reference::decode(format, truth, values.size()).value();
    Floats average = added(values, 0.3F, decoded);
    for (float& sum : average) sum = reference::canonical(sum / 1.3F);
    Bytes encoded(truth.size());
    Floats again(values.size());
    Floats sums = values;
    {
      const BadEnvironment bad;
      ASSERT_EQ(encode(format, encoded, bytes_of(values)), std::nullopt);
      ASSERT_TRUE(decode(format, std::as_writable_bytes(std::span(again)), encoded));
      ASSERT_TRUE(decode_add(format, std::as_writable_bytes(std::span(sums)), encoded, 0.3F));
      divide_sums(std::as_writable_bytes(std::span(sums)), 1.3F);
      EXPECT_EQ(std::fegetround(), FE_DOWNWARD);
    }
    EXPECT_TRUE(encoded == truth) << name_of(format);
    EXPECT_TRUE(same(bytes_of(again), bytes_of(decoded))) << name_of(format);
    EXPECT_TRUE(same(bytes_of(sums), bytes_of(average))) << name_of(format);
  }
}

TEST_P(Codec, GoldenHashes) {
  for (const auto format : kAllFormats) {
    const test::FormatHashes hashes = test::hashes_of(format);
    EXPECT_EQ(hashes, test::golden_hashes(format)) << name_of(format) << std::hex << " {0x" << hashes.encoded << "U, 0x"
                                                   << hashes.decoded << "U, 0x" << hashes.average << "U}";
  }
}

TEST(CodecDeathTest, RefusesInvalidCalls) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  Bytes values(8);
  Bytes encoded(6);
  EXPECT_DEATH((void)encode(WireFormat::kInt8, std::span(encoded).first(5), values), "encoded_size");
  EXPECT_DEATH((void)encode(WireFormat::kInt8, encoded, std::span(values).first(7)), "size");
  EXPECT_DEATH((void)decode_add(WireFormat::kInt8, values, encoded, NAN), "weight");
  EXPECT_DEATH(divide_sums(values, 0.0F), "total");
}

}  // namespace
}  // namespace lockstep::formats
