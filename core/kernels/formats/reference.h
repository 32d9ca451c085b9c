// The scalar reference of the wire formats: the output of an encoder, and the input and output of a decoder. This file
// is written for readability, not for speed; codec.cc must produce the same bits. Little-endian; blocks and sizes are
// in format.h.
//
//                 codes                  behind them           decoded                     error, of x in a block
//   native        f32                                          the number                  none
//   bf16          bf16                                         the number                  2^-8 |x|, at least 2^-134
//   f16           f16                                          the number                  2^-11 |x|, at least 2^-25
//   int8          i8, -127..127          f32 scale             code * scale                max |x| / 254
//   int8-min-max  u8                     f32 lowest, f32 step  lowest + code * step        (max - min) / 510
//   int8-codebook u8                     256 f32 means         means[code]                 a bin; more in the outermost
//   int4          4 bits, -7..7          f32 scale             code * scale                max |x| / 14
//   e3m0          4 bits, sign and size  u8 exponent           2^(exponent-127 + size-7)   |x| / 3; |x| if too small
//
// bf16 and f16 round to nearest even; a number beyond the largest number of the format becomes the largest number. The
// errors of the other formats are those of exact arithmetic: f32 arithmetic adds 2^-13 of the error to int8 and int4,
// and 2^-20 of the largest |x| to int8-min-max. Codes of 4 bits: byte i of a block holds element i in its lower half
// and element i + (size + 1)/2 in its upper half; in a block of odd size the last upper half is 0.
//
// A block is encoded as all zeros (int8-min-max: as all lowest values) if its largest |x| (int8-min-max: half of its
// range) is below 2^-119, or 2^-98 for int8-codebook. So scales and steps are normal numbers. A decoder rejects input
// that no encoder writes: a wrong number of bytes; numbers, lowest values and means that are not finite; scales and
// steps that are negative, not normal, or have a product that is not finite; codes that are not listed (-128; with 4
// bits the code 8: -8 or -0); and codes other than 0 where a scale, step or exponent is 0.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/kernels/element.h"
#include "core/kernels/formats/format.h"
#include "core/kernels/reference.h"

namespace lockstep::reference {

using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

template <typename T>
void append(Bytes& out, T value) {
  out.resize(out.size() + sizeof(T));
  std::memcpy(out.data() + out.size() - sizeof(T), &value, sizeof(T));
}

inline float largest_magnitude(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

// Appends codes of 4 bits that are not negative.
inline void append_nibbles(Bytes& out, const std::vector<std::uint8_t>& codes) {
  const std::size_t half = (codes.size() + 1) / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const unsigned upper = i + half < codes.size() ? codes[i + half] : 0U;
    append(out, static_cast<std::uint8_t>(codes[i] | upper << 4U));
  }
}

inline std::optional<std::vector<std::uint8_t>> take_nibbles(std::span<const std::byte> bytes, std::size_t count) {
  std::vector<std::uint8_t> codes;
  for (const std::byte byte : bytes) codes.push_back(std::to_integer<std::uint8_t>(byte & std::byte{15}));
  for (const std::byte byte : bytes) codes.push_back(std::to_integer<std::uint8_t>(byte >> 4));
  if (codes.size() > count && codes.back() != 0) return std::nullopt;
  codes.resize(count);
  if (std::ranges::find(codes, 8) != codes.end()) return std::nullopt;
  return codes;
}

inline bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

// native, bf16, f16: a block is one number.

template <typename T>
void encode_number(std::span<const float> values, Bytes& out) {
  if constexpr (std::same_as<T, float>) {
    append(out, values[0]);
  } else {
    const float most = std::same_as<T, F16> ? 65504.0F : widen(BF16{0x7f7f});
    append(out, narrow<T>(std::clamp(values[0], -most, most)));
  }
}

template <typename T>
std::optional<Floats> decode_number(std::span<const std::byte> bytes, std::size_t) {
  float value = 0;
  if constexpr (std::same_as<T, float>) {
    value = load<T>(bytes.data(), 0);
  } else {
    value = widen(load<T>(bytes.data(), 0));
  }
  if (!std::isfinite(value)) return std::nullopt;
  return Floats{value};
}

// int8 and int4: codes -most..most in multiples of a scale.

struct Scaled {
  std::vector<std::int32_t> codes;
  float scale = 0;
};

inline Scaled scaled(std::span<const float> values, float most) {
  const float largest = largest_magnitude(values);
  Scaled result{std::vector<std::int32_t>(values.size()), 0.0F};
  if (largest < 0x1p-119F) return result;
  result.scale = largest / most;
  if (std::isinf(most * result.scale)) result.scale = std::nextafter(result.scale, 0.0F);
  const float steps_per_unit = most / largest;
  for (std::size_t i = 0; i < values.size(); ++i) {
    result.codes[i] = static_cast<std::int32_t>(std::nearbyint(values[i] * steps_per_unit));
  }
  return result;
}

inline bool is_scale(float scale, float most) {
  return std::isnormal(scale) && scale > 0 && std::isfinite(most * scale);
}

inline void encode_int8(std::span<const float> values, Bytes& out) {
  const auto [codes, scale] = scaled(values, 127.0F);
  for (const auto code : codes) append(out, static_cast<std::int8_t>(code));
  append(out, scale);
}

inline std::optional<Floats> decode_int8(std::span<const std::byte> bytes, std::size_t count) {
  if (all_zero(bytes)) return Floats(count, 0.0F);
  const auto scale = load<float>(bytes.data() + count, 0);
  if (!is_scale(scale, 127.0F)) return std::nullopt;
  Floats values;
  for (std::size_t i = 0; i < count; ++i) {
    const auto code = load<std::int8_t>(bytes.data(), i);
    if (code == -128) return std::nullopt;
    values.push_back(static_cast<float>(code) * scale);
  }
  return values;
}

inline void encode_int4(std::span<const float> values, Bytes& out) {
  const auto [codes, scale] = scaled(values, 7.0F);
  std::vector<std::uint8_t> nibbles(codes.size());
  std::ranges::transform(codes, nibbles.begin(), [](auto code) { return static_cast<std::uint8_t>(code & 15); });
  append_nibbles(out, nibbles);
  append(out, scale);
}

inline std::optional<Floats> decode_int4(std::span<const std::byte> bytes, std::size_t count) {
  if (all_zero(bytes)) return Floats(count, 0.0F);
  const auto code_bytes = bytes.first(bytes.size() - sizeof(float));
  const auto scale = load<float>(bytes.data() + code_bytes.size(), 0);
  const auto codes = take_nibbles(code_bytes, count);
  if (!codes || !is_scale(scale, 7.0F)) return std::nullopt;
  Floats values;
  for (const int code : *codes) values.push_back(static_cast<float>(code < 8 ? code : code - 16) * scale);
  return values;
}

// int8-min-max: codes 0..255 count steps from the lowest value. Magnitudes beyond 2^126 become 2^126, so that the range
// is finite.

inline constexpr float kMostBetween = 0x1p126F;

inline void encode_int8_min_max(std::span<const float> values, Bytes& out) {
  float lowest = values[0];
  float highest = values[0];
  for (const float value : values) {
    lowest = min(lowest, value);  // -0.0 < +0.0
    highest = max(highest, value);
  }
  lowest = std::clamp(lowest, -kMostBetween, kMostBetween);
  highest = std::clamp(highest, -kMostBetween, kMostBetween);
  const float half_range = highest * 0.5F - lowest * 0.5F;
  const bool flat = half_range < 0x1p-119F;
  const float step = flat ? 0.0F : half_range / 127.5F;
  const float steps_per_unit = flat ? 0.0F : 127.5F / half_range;
  for (const float value : values) {
    const float within = std::clamp(value, lowest, highest);
    append(out, static_cast<std::uint8_t>(std::nearbyint((within - lowest) * steps_per_unit)));
  }
  append(out, lowest);
  append(out, step);
}

inline std::optional<Floats> decode_int8_min_max(std::span<const std::byte> bytes, std::size_t count) {
  const auto lowest = load<float>(bytes.data() + count, 0);
  const auto step = load<float>(bytes.data() + count, 1);
  const bool flat = std::bit_cast<std::uint32_t>(step) == 0 && all_zero(bytes.first(count));
  if (!(std::fabs(lowest) <= kMostBetween)) return std::nullopt;
  if (!flat && !(std::isnormal(step) && step > 0 && step <= kMostBetween / 127.5F)) return std::nullopt;
  Floats values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(lowest + static_cast<float>(load<std::uint8_t>(bytes.data(), i)) * step);
  }
  return values;
}

// int8-codebook, as in INTELLECT-1. The bins have a width of 6/256 of the root of the mean square and are centred at 0;
// the outermost bins contain all values beyond them. A code is the index of a bin and decodes to the mean of the values
// in the bin, so encoding preserves the sum of a block. Sums are sums of integers, in units of 2^-30 of the power of
// two above the largest magnitude: exact in any order.

inline void encode_int8_codebook(std::span<const float> values, Bytes& out) {
  const float largest = largest_magnitude(values);
  const bool zero = largest < 0x1p-98F;
  int exponent = 0;
  std::frexp(largest, &exponent);  // largest < 2^exponent
  const float units = zero ? 0.0F : std::ldexp(1.0F, 30 - exponent);
  std::uint64_t squares = 0;  // in units that are coarser: 4096 * 2^44 fits
  for (const float value : values) {
    const std::int64_t coarse = static_cast<std::int32_t>(value * units) >> 8;
    squares += static_cast<std::uint64_t>(coarse * coarse);
  }
  const std::size_t freedom = std::max<std::size_t>(values.size() - 1, 1);
  const double bin = 6.0 * std::sqrt(static_cast<double>(squares) / static_cast<double>(freedom));  // 256 / 256 units
  const float bins_per_unit = zero ? 0.0F : units * static_cast<float>(1.0 / bin);

  std::array<std::int64_t, 256> sums{};
  std::array<std::int64_t, 256> counts{};
  for (const float value : values) {
    const auto bins = std::clamp(static_cast<std::int32_t>(std::nearbyint(value * bins_per_unit)), -128, 127);
    const auto code = static_cast<std::uint8_t>(bins + 128);
    sums[code] += static_cast<std::int32_t>(value * units);
    ++counts[code];
    append(out, code);
  }
  for (std::size_t code = 0; code < 256; ++code) {
    const double mean = static_cast<double>(sums[code]) / static_cast<double>(std::max<std::int64_t>(counts[code], 1));
    append(out, static_cast<float>(mean * std::ldexp(1.0, exponent - 30)));
  }
}

inline std::optional<Floats> decode_int8_codebook(std::span<const std::byte> bytes, std::size_t count) {
  const std::byte* means = bytes.data() + count;
  for (std::size_t code = 0; code < 256; ++code) {
    if (!std::isfinite(load<float>(means, code))) return std::nullopt;
  }
  Floats values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(load<float>(means, load<std::uint8_t>(bytes.data(), i)));
  return values;
}

// e3m0: powers of two, computed on the bits of an f32. A size of 1..7 is 2^-6..2^0 times the block's power of two; a
// size of 0 is 0.

// The exponent, with f32's bias, of the power of two that x is rounded to: x is in [3/4, 3/2) of it.
inline int rounded_exponent(float value) {
  const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & 0x7fff'ffffU;
  return static_cast<int>((magnitude + 0x40'0000U) >> 23U);
}

inline void encode_e3m0(std::span<const float> values, Bytes& out) {
  const float largest = largest_magnitude(values);
  // the largest power of two of an f32 is 2^127
  const int exponent = largest < 0x1p-119F ? 0 : std::min(rounded_exponent(largest), 254);
  std::vector<std::uint8_t> codes;
  for (const float value : values) {
    const int size = exponent == 0 ? 0 : std::clamp(rounded_exponent(value) - exponent + 7, 0, 7);
    const int sign = size > 0 && std::signbit(value) ? 8 : 0;
    codes.push_back(static_cast<std::uint8_t>(sign | size));
  }
  append_nibbles(out, codes);
  append(out, static_cast<std::uint8_t>(exponent));
}

inline std::optional<Floats> decode_e3m0(std::span<const std::byte> bytes, std::size_t count) {
  if (all_zero(bytes)) return Floats(count, 0.0F);
  const auto exponent = std::to_integer<int>(bytes.back());
  const auto codes = take_nibbles(bytes.first(bytes.size() - 1), count);
  if (!codes || exponent < 8 || exponent > 254) return std::nullopt;  // the exponent of 2^-119 is 8
  Floats values;
  for (const int code : *codes) {
    const float magnitude = (code & 7) == 0 ? 0.0F : std::ldexp(1.0F, exponent - 127 + (code & 7) - 7);
    values.push_back((code & 8) != 0 ? -magnitude : magnitude);
  }
  return values;
}

// Dispatch over all formats.

inline void encode_block(WireFormat format, std::span<const float> values, Bytes& out) {
  switch (format) {
    case WireFormat::kNative: return encode_number<float>(values, out);
    case WireFormat::kBF16: return encode_number<BF16>(values, out);
    case WireFormat::kF16: return encode_number<F16>(values, out);
    case WireFormat::kInt8: return encode_int8(values, out);
    case WireFormat::kInt8MinMax: return encode_int8_min_max(values, out);
    case WireFormat::kInt8Codebook: return encode_int8_codebook(values, out);
    case WireFormat::kInt4: return encode_int4(values, out);
    case WireFormat::kE3M0: return encode_e3m0(values, out);
  }
  LOCKSTEP_UNREACHABLE();
}

inline std::optional<Floats> decode_block(WireFormat format, std::span<const std::byte> bytes, std::size_t count) {
  switch (format) {
    case WireFormat::kNative: return decode_number<float>(bytes, count);
    case WireFormat::kBF16: return decode_number<BF16>(bytes, count);
    case WireFormat::kF16: return decode_number<F16>(bytes, count);
    case WireFormat::kInt8: return decode_int8(bytes, count);
    case WireFormat::kInt8MinMax: return decode_int8_min_max(bytes, count);
    case WireFormat::kInt8Codebook: return decode_int8_codebook(bytes, count);
    case WireFormat::kInt4: return decode_int4(bytes, count);
    case WireFormat::kE3M0: return decode_e3m0(bytes, count);
  }
  LOCKSTEP_UNREACHABLE();
}

inline std::optional<std::size_t> first_not_finite(std::span<const float> values) {
  const auto found = std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
  if (found == values.end()) return std::nullopt;
  return static_cast<std::size_t>(found - values.begin());
}

// References of the functions in codec.h. Values to be encoded are finite.

inline Bytes encode(WireFormat format, std::span<const float> values) {
  Bytes out;
  while (!values.empty()) {
    const auto block = values.first(std::min(values.size(), layout_of(format).elements));
    encode_block(format, block, out);
    values = values.subspan(block.size());
  }
  return out;
}

inline std::optional<Floats> decode(WireFormat format, std::span<const std::byte> encoded, std::size_t count) {
  if (encoded.size() != encoded_size(format, count)) return std::nullopt;
  Floats values;
  while (values.size() < count) {
    const auto elements = std::min(count - values.size(), layout_of(format).elements);
    const auto block = encoded.first(encoded_size(format, elements));
    const auto decoded = decode_block(format, block, elements);
    if (!decoded) return std::nullopt;
    values.insert(values.end(), decoded->begin(), decoded->end());
    encoded = encoded.subspan(block.size());
  }
  return values;
}

inline float add_weighted(float sum, float weight, float value) { return canonical(sum + weight * value); }

// weight * values; 0 where the weight is 0, whatever the values are.
inline Floats weighed(float weight, std::span<const float> values) {
  Floats result(values.size());
  for (std::size_t i = 0; i < result.size() && weight != 0; ++i) result[i] = canonical(weight * values[i]);
  return result;
}

// sums + weight * values; values of weight 0 are not read.
inline Floats add_weighted(Floats sums, float weight, std::span<const float> values) {
  for (std::size_t i = 0; i < sums.size() && weight != 0; ++i) sums[i] = add_weighted(sums[i], weight, values[i]);
  return sums;
}

// The residual of values that were encoded with `weight`; 0 for a native format.
inline Floats left_of(WireFormat format, float weight, const Floats& values) {
  if (format == WireFormat::kNative) return Floats(values.size(), 0.0F);
  Floats went = *decode(format, encode(format, weighed(weight, values)), values.size());
  // The reciprocal of a denormal weight may be infinite. Then the weight and the encoded values are multiplied by 2^64.
  const bool tiny = !std::isfinite(1 / weight);
  if (tiny) went = weighed(0x1p64F, went);
  return add_weighted(values, -(1 / (tiny ? weight * 0x1p64F : weight)), went);
}

}  // namespace lockstep::reference
