// Laws of the wire formats: the largest error of an encoded and decoded value. The bounds are those of the table in
// core/kernels/formats/reference.h, in arithmetic of sufficient precision.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/kernels/formats/codec.h"
#include "core/kernels/formats/reference.h"
#include "tests/support/formats.h"

namespace lockstep::formats {
namespace {

using Doubles = std::vector<double>;

// One block before and after coding.
struct Coded {
  Doubles before;
  Doubles after;
  std::vector<std::byte> encoded;

  [[nodiscard]] double largest() const {
    double magnitude = 0;
    for (const double x : before) magnitude = std::max(magnitude, std::fabs(x));
    return magnitude;
  }
};

// A block of hostile values, or of values of one style, which resemble each other.
Coded any_coded(WireFormat format) {
  const std::size_t most =
      format == WireFormat::kInt8Codebook ? 4096 : std::max<std::size_t>(layout_of(format).elements, 64);
  const auto count = *rc::gen::inRange<std::size_t>(1, most + 1);
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1'000'000);
  const auto style = *rc::gen::inRange<std::uint64_t>(0, 2 * test::kStyles);
  const auto values =
      style < test::kStyles ? test::floats_of_style(style, seed, count) : test::hostile_floats(seed, count);
  Coded block{{values.begin(), values.end()}, {}, std::vector<std::byte>(encoded_size(format, count))};
  std::vector<float> decoded(count);
  RC_ASSERT(!encode(format, block.encoded, test::bytes_of(values)));
  RC_ASSERT(decode(format, std::as_writable_bytes(std::span(decoded)), block.encoded));
  block.after = {decoded.begin(), decoded.end()};
  return block;
}

template <typename Bound>
void expect_within(const Coded& block, Bound bound_of) {
  for (std::size_t i = 0; i < block.before.size(); ++i) {
    const double x = block.before[i];
    if (std::fabs(block.after[i] - x) > bound_of(x)) {
      RC_FAIL(std::to_string(x) + " became " + std::to_string(block.after[i]));
    }
  }
}

RC_GTEST_PROP(WireFormats, NumbersAreWithinHalfOfTheirLastBit, ()) {
  expect_within(any_coded(WireFormat::kNative), [](double) { return 0; });
  expect_within(any_coded(WireFormat::kBF16), [](double x) { return std::max(std::fabs(x) * 0x1p-8, 0x1p-134); });
  expect_within(any_coded(WireFormat::kF16), [](double x) {
    if (std::fabs(x) > 65504) return std::fabs(x) - 65504;
    return std::max(std::fabs(x) * 0x1p-11, 0x1p-25);
  });
}

RC_GTEST_PROP(WireFormats, AbsMaxIsWithinHalfAStep, ()) {
  for (const auto& [format, most_code] : {std::pair{WireFormat::kInt8, 127}, std::pair{WireFormat::kInt4, 7}}) {
    const Coded block = any_coded(format);
    const double largest = block.largest();
    const double bound = largest < 0x1p-119 ? largest : largest / (2 * most_code) * (1 + 0x1p-13);
    expect_within(block, [=](double) { return bound; });
  }
}

RC_GTEST_PROP(WireFormats, MinMaxIsWithinHalfAStep, ()) {
  Coded block = any_coded(WireFormat::kInt8MinMax);
  for (double& x : block.before) x = std::clamp(x, -0x1p126, 0x1p126);
  const auto [lowest, highest] = std::ranges::minmax(block.before);
  const double range = highest - lowest;
  const double bound = range < 0x1p-118 ? range : range / 510 + 0x1p-20 * block.largest();
  expect_within(block, [=](double) { return bound; });
}

RC_GTEST_PROP(WireFormats, TheCodebookIsWithinABinAndKeepsTheSum, ()) {
  const Coded block = any_coded(WireFormat::kInt8Codebook);
  const std::size_t count = block.before.size();
  const double largest = block.largest();
  if (largest < 0x1p-98) return expect_within(block, [=](double) { return largest; });
  double squares = 0;
  double before = 0;
  double after = 0;
  for (std::size_t i = 0; i < count; ++i) {
    squares += block.before[i] / largest * (block.before[i] / largest);
    before += block.before[i] / largest;
    after += block.after[i] / largest;
  }
  const double bin = 6.0 / 256 * largest * std::sqrt(squares / std::max<double>(static_cast<double>(count) - 1, 1));
  for (std::size_t i = 0; i < count; ++i) {
    const auto code = std::to_integer<int>(block.encoded[i]);
    if (code == 0 || code == 255) continue;  // the outermost bins have no bound
    RC_ASSERT(std::fabs(block.after[i] - block.before[i]) <= bin * (1 + 0x1p-10));
  }
  RC_ASSERT(std::fabs(after - before) <= static_cast<double>(count) * 0x1p-23);
}

RC_GTEST_PROP(WireFormats, E3M0IsWithinAThird, ()) {
  const Coded block = any_coded(WireFormat::kE3M0);
  const double largest = block.largest();
  if (largest < 0x1p-119) return expect_within(block, [=](double x) { return std::fabs(x); });
  double power = 0x1p127;  // the largest power of two of an f32, also for values that are nearer to the next one
  while (largest < 0.75 * power) power /= 2;
  for (std::size_t i = 0; i < block.before.size(); ++i) {
    const double x = block.before[i];
    const double y = block.after[i];
    if (std::fabs(x) < 0.75 * 0x1p-6 * power) {
      RC_ASSERT(y == 0);
    } else if (std::fabs(x) >= 1.5 * power) {
      RC_ASSERT(y == std::copysign(power, x));
    } else {
      RC_ASSERT(std::fabs(y - x) <= std::fabs(x) / 3);
    }
  }
}

// A received value can be sent again: a codec that reads finite values writes finite values, like the reference.
RC_GTEST_PROP(WireFormats, DecodedValuesAreAlwaysFinite, ()) {
  const auto format = static_cast<WireFormat>(*rc::gen::inRange<int>(0, kWireFormatCount));
  const auto count = *rc::gen::inRange<std::size_t>(0, 300);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  std::vector<std::byte> bytes(encoded_size(format, count));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(draw(seed, 1, i) & 0x7fU);
  std::vector<float> values(count);
  const bool accepted = decode(format, std::as_writable_bytes(std::span(values)), bytes);
  const auto truth = reference::decode(format, bytes, count);
  RC_ASSERT(accepted == truth.has_value());
  if (!accepted) return;
  RC_ASSERT(std::ranges::equal(test::bytes_of(values), test::bytes_of(*truth)));
  RC_ASSERT(std::ranges::all_of(values, [](float value) { return std::isfinite(value); }));
}

}  // namespace
}  // namespace lockstep::formats
