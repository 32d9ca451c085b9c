#include "sim/checkers/oracle_elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/base/assert.h"

namespace lockstep::sim::oracle {
namespace {

std::uint64_t load(std::span<const std::byte> bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t k = width; k > 0; --k) value = value * 256 + std::to_integer<std::uint64_t>(bytes[at + k - 1]);
  return value;
}

void store(std::span<std::byte> bytes, std::size_t at, std::size_t width, std::uint64_t value) {
  for (std::size_t k = 0; k < width; ++k, value /= 256) bytes[at + k] = static_cast<std::byte>(value % 256);
}

bool is_signed(DataType type) {
  return type == DataType::kI8 || type == DataType::kI16 || type == DataType::kI32 || type == DataType::kI64;
}
bool is_real(DataType type) {
  return type == DataType::kF16 || type == DataType::kBF16 || type == DataType::kF32 || type == DataType::kF64;
}

// ---- integers: numbers modulo 2^bits ----

struct Integers {
  std::size_t width;
  bool has_sign;

  [[nodiscard]] std::uint64_t wrapped(std::uint64_t value) const {
    return width == 8 ? value : value % (std::uint64_t{1} << (8 * width));
  }
  [[nodiscard]] bool is_negative(std::uint64_t value) const {
    return has_sign && value >= std::uint64_t{1} << (8 * width - 1);
  }
  [[nodiscard]] bool less(std::uint64_t a, std::uint64_t b) const {
    if (is_negative(a) != is_negative(b)) return is_negative(a);
    return a < b;  // two's complement keeps the order within each half
  }
  template <typename Rule>
  [[nodiscard]] std::uint64_t by_bit(std::uint64_t a, std::uint64_t b, Rule rule) const {
    std::uint64_t result = 0;
    std::uint64_t place = 1;
    for (std::size_t i = 0; i < 8 * width; ++i, a /= 2, b /= 2, place *= 2) {
      result += place * rule(static_cast<unsigned>(a % 2), static_cast<unsigned>(b % 2));
    }
    return result;
  }
  [[nodiscard]] std::uint64_t folded(ReduceOp op, std::uint64_t a, std::uint64_t b) const {
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg: return wrapped(a + b);
      case ReduceOp::kProd: return wrapped(a * b);
      case ReduceOp::kMin: return less(b, a) ? b : a;
      case ReduceOp::kMax: return less(a, b) ? b : a;
      case ReduceOp::kBitAnd: return by_bit(a, b, [](unsigned x, unsigned y) { return x * y; });
      case ReduceOp::kBitOr: return by_bit(a, b, [](unsigned x, unsigned y) { return std::max(x, y); });
      case ReduceOp::kBitXor: return by_bit(a, b, [](unsigned x, unsigned y) { return (x + y) % 2; });
    }
    LOCKSTEP_UNREACHABLE();
  }
  // Rounds the magnitude toward zero, and restores the sign.
  [[nodiscard]] std::uint64_t divided(std::uint64_t value, std::uint32_t by) const {
    return is_negative(value) ? wrapped(0 - wrapped(0 - value) / by) : value / by;
  }
};

// ---- booleans: the number of true ones among the two decides ----

std::uint64_t fold_booleans(ReduceOp op, std::uint64_t a, std::uint64_t b) {
  const int trues = (a != 0 ? 1 : 0) + (b != 0 ? 1 : 0);
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMax:
    case ReduceOp::kBitOr: return trues >= 1 ? 1 : 0;
    case ReduceOp::kProd:
    case ReduceOp::kMin:
    case ReduceOp::kBitAnd: return trues == 2 ? 1 : 0;
    case ReduceOp::kBitXor: return trues == 1 ? 1 : 0;
    case ReduceOp::kAvg: break;
  }
  LOCKSTEP_UNREACHABLE();
}

// ---- floats ----

template <typename Float>
Float folded(ReduceOp op, Float a, Float b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: return a + b;
    case ReduceOp::kProd: return a * b;
    case ReduceOp::kMin:
    case ReduceOp::kMax: break;
    case ReduceOp::kBitAnd:
    case ReduceOp::kBitOr:
    case ReduceOp::kBitXor: LOCKSTEP_UNREACHABLE();
  }
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Float>::quiet_NaN();
  const bool a_is_less = a < b || (a == b && std::signbit(a));  // -0.0 is less than +0.0
  return a_is_less == (op == ReduceOp::kMin) ? a : b;
}

// A 16-bit float: digits of the significand with the one before the point, and the exponents of normal numbers.
struct Small {
  int digits;
  int least;
  int most;
  [[nodiscard]] unsigned fields() const {
    return 16U - 1U - static_cast<unsigned>(digits - 1);
  }  // bits of the exponent
  [[nodiscard]] std::uint16_t infinity() const {
    return static_cast<std::uint16_t>(((1U << fields()) - 1U) << static_cast<unsigned>(digits - 1));
  }
  [[nodiscard]] std::uint16_t nan() const {
    return static_cast<std::uint16_t>(infinity() + (1U << static_cast<unsigned>(digits - 2)));
  }
};
Small small(DataType type) { return type == DataType::kF16 ? Small{11, -14, 15} : Small{8, -126, 127}; }

constexpr std::uint64_t kNan32 = 0x7fc00000;
constexpr std::uint64_t kNan64 = 0x7ff8000000000000;

double number_at(DataType type, std::uint64_t bits) {
  if (type == DataType::kF64) return std::bit_cast<double>(bits);
  if (type == DataType::kF32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  return number_of(type, static_cast<std::uint16_t>(bits));
}

// f32, and the types that are folded in f32.
std::uint64_t bits_of(DataType type, float value) {
  if (type != DataType::kF32) return bits_of_nearest(type, value);
  return std::isnan(value) ? kNan32 : std::bit_cast<std::uint32_t>(value);
}
std::uint64_t bits_of(double value) { return std::isnan(value) ? kNan64 : std::bit_cast<std::uint64_t>(value); }

std::uint64_t fold_floats(DataType type, ReduceOp op, std::uint64_t a, std::uint64_t b) {
  const double x = number_at(type, a);
  const double y = number_at(type, b);
  if (type == DataType::kF64) return bits_of(folded(op, x, y));
  return bits_of(type, folded(op, static_cast<float>(x), static_cast<float>(y)));
}

std::uint64_t fold_one(DataType type, ReduceOp op, std::uint64_t a, std::uint64_t b) {
  if (type == DataType::kBool) return fold_booleans(op, a, b);
  if (is_real(type)) return fold_floats(type, op, a, b);
  return Integers{size_of(type), is_signed(type)}.folded(op, a, b);
}

}  // namespace

float number_of(DataType type, std::uint16_t bits) {
  const Small form = small(type);
  const unsigned magnitude = bits % 0x8000U;
  const float sign = bits >= 0x8000U ? -1.0F : 1.0F;
  if (magnitude > form.infinity()) return std::nanf("");
  if (magnitude == form.infinity()) return sign * HUGE_VALF;
  const unsigned normal = 1U << static_cast<unsigned>(form.digits - 1);
  const unsigned field = magnitude / normal;
  const unsigned digits = magnitude % normal + (field > 0 ? normal : 0);
  const int exponent = form.least + static_cast<int>(field > 0 ? field - 1 : 0);
  return sign * std::ldexp(static_cast<float>(digits), exponent - (form.digits - 1));
}

std::uint16_t bits_of_nearest(DataType type, float value) {
  const Small form = small(type);
  if (std::isnan(value)) return form.nan();
  const unsigned sign = std::signbit(value) ? 0x8000U : 0U;
  if (value == 0) return static_cast<std::uint16_t>(sign);
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign + form.infinity());
  int exponent = 0;
  (void)std::frexp(value, &exponent);  // |value| in [2^(exponent-1), 2^exponent)
  const int unit = std::max(exponent - 1, form.least) - (form.digits - 1);
  const double units = std::ldexp(std::fabs(static_cast<double>(value)), -unit);  // exact
  double whole = std::floor(units);
  const double rest = units - whole;
  if (rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) == 1)) whole += 1;
  // Behind the largest significand of one exponent comes the smallest of the next, as it does in the bits.
  const auto normal = static_cast<unsigned>(1 << (form.digits - 1));
  const auto steps = static_cast<unsigned>(unit + (form.digits - 1) - form.least);  // above the least exponent
  const unsigned magnitude = steps * normal + static_cast<unsigned>(whole);
  return static_cast<std::uint16_t>(sign + std::min<unsigned>(magnitude, form.infinity()));
}

Bytes fold(DataType type, ReduceOp op, std::span<const std::byte> incoming, std::span<const std::byte> own) {
  const std::size_t width = size_of(type);
  Bytes into(incoming.size());
  for (std::size_t at = 0; at < into.size(); at += width) {
    const std::uint64_t a = load(incoming, at, width);
    const std::uint64_t b = load(own, at, width);
    store(into, at, width, fold_one(type, op, a, b));
  }
  return into;
}

void divide(DataType type, std::span<std::byte> values, std::uint32_t contributors) {
  const std::size_t width = size_of(type);
  const Integers integers{width, is_signed(type)};
  for (std::size_t at = 0; at < values.size(); at += width) {
    const std::uint64_t sum = load(values, at, width);
    if (!is_real(type)) {
      store(values, at, width, integers.divided(sum, contributors));
    } else if (type == DataType::kF64) {
      store(values, at, width, bits_of(number_at(type, sum) / contributors));
    } else {
      const auto number = static_cast<float>(number_at(type, sum));
      store(values, at, width, bits_of(type, number / static_cast<float>(contributors)));
    }
  }
}

}  // namespace lockstep::sim::oracle
