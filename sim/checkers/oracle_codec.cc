#include "sim/checkers/oracle_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "core/base/assert.h"
#include "sim/checkers/oracle_chunks.h"

namespace lockstep::sim::oracle {
namespace {

constexpr float kSmallestScaled = 0x1p-119F;  // blocks below it are all zero
constexpr float kSmallestBook = 0x1p-98F;     // likewise with a code book
constexpr float kLargestRange = 0x1p126F;     // beyond it a range would not be a number

// ---- bytes ----

void append(Bytes& out, std::uint64_t value, std::size_t width) {
  for (std::size_t k = 0; k < width; ++k, value /= 256) out.push_back(static_cast<std::byte>(value % 256));
}
void append(Bytes& out, float value) { append(out, std::bit_cast<std::uint32_t>(value), 4); }

struct In {
  std::span<const std::byte> rest;
  std::uint64_t take(std::size_t width) {
    std::uint64_t value = 0;
    for (std::size_t k = width; k > 0; --k) value = value * 256 + std::to_integer<std::uint64_t>(rest[k - 1]);
    rest = rest.subspan(width);
    return value;
  }
  float number() { return std::bit_cast<float>(static_cast<std::uint32_t>(take(4))); }
};

// Byte i of a block holds element i in its lower half and element i + (size + 1)/2 in its upper half.
void append_halves(Bytes& out, const std::vector<int>& codes) {
  const std::size_t bytes = (codes.size() + 1) / 2;
  for (std::size_t i = 0; i < bytes; ++i) {
    const int upper = i + bytes < codes.size() ? codes[i + bytes] : 0;
    append(out, static_cast<std::uint64_t>((codes[i] + 16) % 16 + 16 * ((upper + 16) % 16)), 1);
  }
}
std::vector<int> take_halves(In& in, std::size_t count) {
  const std::size_t bytes = (count + 1) / 2;
  std::vector<int> codes(2 * bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto both = static_cast<int>(in.take(1));
    codes[i] = both % 16;
    codes[i + bytes] = both / 16;
  }
  codes.resize(count);
  return codes;
}

// ---- numbers ----

// The nearest integer, the even one of two.
int nearest(float value) {
  const double below = std::floor(static_cast<double>(value));
  const double rest = static_cast<double>(value) - below;
  const bool up = rest > 0.5 || (rest == 0.5 && std::fmod(below, 2) != 0);
  return static_cast<int>(below) + (up ? 1 : 0);
}

float largest_of(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

float quiet(float value) { return std::isnan(value) ? std::bit_cast<float>(0x7fc00000U) : value; }

// The exponent of the power of two of which x is in [3/4, 3/2).
int nearest_power(float value) {
  int exponent = 0;
  const float part = std::frexp(std::fabs(value), &exponent);  // in [1/2, 1)
  return part < 0.75F ? exponent - 1 : exponent;
}

// ---- blocks ----

struct Units {
  std::vector<int> codes;
  float scale = 0;
};
Units in_units(std::span<const float> block, float most) {
  const float largest = largest_of(block);
  Units units{std::vector<int>(block.size()), 0};
  if (largest < kSmallestScaled) return units;
  units.scale = largest / most;
  if (std::isinf(most * units.scale)) units.scale = std::nextafter(units.scale, 0.0F);
  for (std::size_t i = 0; i < block.size(); ++i) units.codes[i] = nearest(block[i] * (most / largest));
  return units;
}

void encode_small(DataType type, float value, Bytes& out) {
  const float most = type == DataType::kF16 ? 65504.0F : 0x1.fep127F;
  append(out, bits_of_nearest(type, std::max(-most, std::min(most, value))), 2);
}

void encode_between(std::span<const float> block, Bytes& out) {
  float lowest = block[0];
  float highest = block[0];
  for (const float value : block) {
    if (value < lowest || (value == 0 && lowest == 0 && std::signbit(value))) lowest = value;
    if (value > highest || (value == 0 && highest == 0 && !std::signbit(value))) highest = value;
  }
  const auto limited = [](float value, float from, float to) { return value < from ? from : value > to ? to : value; };
  lowest = limited(lowest, -kLargestRange, kLargestRange);
  highest = limited(highest, -kLargestRange, kLargestRange);
  const float half = highest / 2 - lowest / 2;
  const bool flat = half < kSmallestScaled;
  for (const float value : block) {
    const int code = flat ? 0 : nearest((limited(value, lowest, highest) - lowest) * (127.5F / half));
    append(out, static_cast<std::uint64_t>(code), 1);
  }
  append(out, lowest);
  append(out, flat ? 0.0F : half / 127.5F);
}

// A code names one of 256 bins of 6/256 root mean squares; its mean stands for it. Sums are of whole units, 2^-30 of
// the power of two above the largest magnitude; squares are of 256 units each.
void encode_book(std::span<const float> block, Bytes& out) {
  const float largest = largest_of(block);
  const bool zero = largest < kSmallestBook;
  int exponent = 0;
  (void)std::frexp(largest, &exponent);
  const auto units_of = [&](float value) {
    return zero ? 0 : static_cast<std::int64_t>(std::trunc(std::ldexp(value, 30 - exponent)));
  };
  std::uint64_t squares = 0;
  for (const float value : block) {
    const std::int64_t units = units_of(value);
    const std::int64_t coarse = (units - ((units % 256) + 256) % 256) / 256;  // downward
    squares += static_cast<std::uint64_t>(coarse * coarse);
  }
  const auto others = static_cast<double>(std::max<std::size_t>(block.size(), 2) - 1);
  const double bin = 6.0 * std::sqrt(static_cast<double>(squares) / others);
  const float bins_per_unit = zero ? 0.0F : std::ldexp(1.0F, 30 - exponent) * static_cast<float>(1.0 / bin);
  std::array<std::int64_t, 256> sums{};
  std::array<std::int64_t, 256> counts{};
  for (const float value : block) {
    const int code = 128 + std::max(-128, std::min(127, nearest(value * bins_per_unit)));
    sums[static_cast<std::size_t>(code)] += units_of(value);
    counts[static_cast<std::size_t>(code)] += 1;
    append(out, static_cast<std::uint64_t>(code), 1);
  }
  for (std::size_t code = 0; code < 256; ++code) {
    const double mean = counts[code] == 0 ? 0.0 : static_cast<double>(sums[code]) / static_cast<double>(counts[code]);
    append(out, static_cast<float>(std::ldexp(mean, exponent - 30)));
  }
}

// A size of 1..7 stands for 2^-6..2^0 times the block's power of two; the byte behind says which: its exponent + 127, 0
// for zero.
void encode_powers(std::span<const float> block, Bytes& out) {
  const float largest = largest_of(block);
  const bool zero = largest < kSmallestScaled;
  const int power = zero ? 0 : std::min(nearest_power(largest), 127);
  std::vector<int> codes;
  for (const float value : block) {
    const int size = zero || value == 0 ? 0 : std::max(0, std::min(7, nearest_power(value) - power + 7));
    codes.push_back(size == 0 ? 0 : size + (std::signbit(value) ? 8 : 0));
  }
  append_halves(out, codes);
  append(out, static_cast<std::uint64_t>(zero ? 0 : power + 127), 1);
}

void encode_block(WireFormat format, std::span<const float> block, Bytes& out) {
  switch (format) {
    case WireFormat::kNative: return append(out, block[0]);
    case WireFormat::kBF16: return encode_small(DataType::kBF16, block[0], out);
    case WireFormat::kF16: return encode_small(DataType::kF16, block[0], out);
    case WireFormat::kInt8: {
      const Units units = in_units(block, 127);
      for (const int code : units.codes) append(out, static_cast<std::uint64_t>(std::int64_t{code} + 256), 1);
      return append(out, units.scale);
    }
    case WireFormat::kInt4: {
      const Units units = in_units(block, 7);
      append_halves(out, units.codes);
      return append(out, units.scale);
    }
    case WireFormat::kInt8MinMax: return encode_between(block, out);
    case WireFormat::kInt8Codebook: return encode_book(block, out);
    case WireFormat::kE3M0: return encode_powers(block, out);
  }
  LOCKSTEP_UNREACHABLE();
}

void decode_block(WireFormat format, In& in, std::size_t count, Floats& out) {
  switch (format) {
    case WireFormat::kNative: return out.push_back(in.number());
    case WireFormat::kBF16: return out.push_back(number_of(DataType::kBF16, static_cast<std::uint16_t>(in.take(2))));
    case WireFormat::kF16: return out.push_back(number_of(DataType::kF16, static_cast<std::uint16_t>(in.take(2))));
    case WireFormat::kInt8: {
      std::vector<int> codes(count);
      for (int& code : codes) code = static_cast<int>(in.take(1));
      const float scale = in.number();
      for (const int code : codes) out.push_back(static_cast<float>(code < 128 ? code : code - 256) * scale);
      return;
    }
    case WireFormat::kInt4: {
      const std::vector<int> codes = take_halves(in, count);
      const float scale = in.number();
      for (const int code : codes) out.push_back(static_cast<float>(code < 8 ? code : code - 16) * scale);
      return;
    }
    case WireFormat::kInt8MinMax: {
      std::vector<float> codes(count);
      for (float& code : codes) code = static_cast<float>(in.take(1));
      const float lowest = in.number();
      const float step = in.number();
      for (const float code : codes) out.push_back(lowest + code * step);
      return;
    }
    case WireFormat::kInt8Codebook: {
      std::vector<std::size_t> codes(count);
      for (std::size_t& code : codes) code = in.take(1);
      std::array<float, 256> means{};
      for (float& mean : means) mean = in.number();
      for (const std::size_t code : codes) out.push_back(means[code]);
      return;
    }
    case WireFormat::kE3M0: {
      const std::vector<int> codes = take_halves(in, count);
      const int power = static_cast<int>(in.take(1)) - 127;
      for (const int code : codes) {
        const float magnitude = code % 8 == 0 ? 0.0F : std::ldexp(1.0F, power + code % 8 - 7);
        out.push_back(code >= 8 ? -magnitude : magnitude);
      }
      return;
    }
  }
  LOCKSTEP_UNREACHABLE();
}

}  // namespace

Bytes encode(WireFormat format, std::span<const float> values) {
  Bytes out;
  const std::size_t block = row_of(format).block;
  for (std::size_t at = 0; at < values.size(); at += block) {
    encode_block(format, values.subspan(at, std::min(block, values.size() - at)), out);
  }
  return out;
}

Floats decode(WireFormat format, std::span<const std::byte> encoded, std::uint64_t count) {
  Floats out;
  In in{encoded};
  const std::size_t block = row_of(format).block;
  while (out.size() < count) decode_block(format, in, std::min(block, count - out.size()), out);
  LOCKSTEP_ASSERT(in.rest.empty());
  return out;
}

std::optional<double> largest_error(WireFormat format, std::span<const float> values, std::size_t i) {
  const double x = std::fabs(static_cast<double>(values[i]));
  const double largest = largest_of(values);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double range = static_cast<double>(*high) - static_cast<double>(*low);
  switch (format) {
    case WireFormat::kNative: return 0;
    case WireFormat::kBF16: return x / 256;
    case WireFormat::kF16: return std::max(x / 2048, 0x1p-25);
    case WireFormat::kInt8: return largest / 254;
    case WireFormat::kInt8MinMax: return range / 510;
    case WireFormat::kInt8Codebook: return std::nullopt;
    case WireFormat::kInt4: return largest / 14;
    case WireFormat::kE3M0: return x < largest / 64 ? x : x / 3;
  }
  LOCKSTEP_UNREACHABLE();
}

Floats weighed(float weight, std::span<const float> values) {
  Floats result(values.size(), 0.0F);
  if (weight == 0) return result;
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = quiet(weight * values[i]);
  return result;
}

Floats add_weighted(std::span<const float> sums, float weight, std::span<const float> values) {
  Floats result(sums.begin(), sums.end());
  if (weight == 0) return result;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const float part = weight * values[i];
    result[i] = quiet(result[i] + part);
  }
  return result;
}

Floats lost_of(WireFormat format, float weight, std::span<const float> values) {
  if (format == WireFormat::kNative) return Floats(values.size(), 0.0F);
  Floats went = decode(format, encode(format, weighed(weight, values)), values.size());
  // The reciprocal of a weight that is no normal number need not be one: both are taken 2^64 times.
  float divisor = weight;
  if (std::isinf(1 / divisor)) {
    divisor = std::ldexp(divisor, 64);
    for (float& value : went) value = std::ldexp(value, 64);
  }
  return add_weighted(values, -(1 / divisor), went);
}

Weights::Weights(std::span<const float> all) {
  double sum = 0;
  for (const float weight : all) sum += weight;
  total_ = sum > 0x1.fffffep127 ? HUGE_VALF : static_cast<float>(sum);
  if (!valid()) return;
  int of_world = 0;
  int of_total = 0;
  (void)std::frexp(static_cast<double>(all.size()), &of_world);
  (void)std::frexp(static_cast<double>(total_), &of_total);
  shift_ = of_world - of_total;
  divisor_ = static_cast<float>(std::ldexp(static_cast<double>(total_), shift_));
}

// A contribution that weighs too little to be written down counts all the same, if for nothing.
float Weights::scaled(float weight) const {
  const auto scaled = static_cast<float>(std::ldexp(static_cast<double>(weight), shift_));
  return weight > 0 && scaled == 0 ? 0x1p-149F : scaled;
}

bool Weights::valid() const { return total_ > 0 && std::isfinite(total_); }

}  // namespace lockstep::sim::oracle
