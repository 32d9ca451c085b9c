#include "bindings/cli/pattern.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/base/rng.h"

namespace lockstep::cli {
namespace {

constexpr std::uint64_t kPeriod = 4099;  // prime

void put(std::byte* place, const auto& value) { std::memcpy(place, &value, sizeof value); }

// The IEEE binary16 of a whole number below 2049, which is exact.
std::uint16_t half_bits(std::uint64_t whole) {
  if (whole == 0) return 0;
  const auto exponent = static_cast<unsigned>(std::bit_width(whole)) - 1;
  const auto fraction = static_cast<unsigned>((whole << 10U >> exponent) & 0x3ffU);
  return static_cast<std::uint16_t>((exponent + 15) << 10U | fraction);
}

void encode(lockstep_data_type type, std::uint64_t whole, std::byte* place) {
  switch (type) {
    case LOCKSTEP_U8:
    case LOCKSTEP_I8: return put(place, static_cast<std::uint8_t>(whole));
    case LOCKSTEP_U16:
    case LOCKSTEP_I16: return put(place, static_cast<std::uint16_t>(whole));
    case LOCKSTEP_U32:
    case LOCKSTEP_I32: return put(place, static_cast<std::uint32_t>(whole));
    case LOCKSTEP_U64:
    case LOCKSTEP_I64: return put(place, whole);
    case LOCKSTEP_F16: return put(place, half_bits(whole));
    case LOCKSTEP_BF16:
      return put(place, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(whole)) >> 16U));
    case LOCKSTEP_F32: return put(place, static_cast<float>(whole));
    case LOCKSTEP_F64: return put(place, static_cast<double>(whole));
    case LOCKSTEP_BOOL: return put(place, static_cast<std::uint8_t>(whole != 0 ? 1 : 0));
  }
}

void repeat(std::span<std::byte> out, std::span<const std::byte> period, std::uint64_t first_byte) {
  std::size_t at = first_byte % period.size();
  while (!out.empty()) {
    const std::size_t n = std::min(out.size(), period.size() - at);
    std::memcpy(out.data(), period.data() + at, n);
    out = out.subspan(n);
    at = 0;
  }
}

std::uint64_t count_wrong(std::span<const std::byte> got, std::span<const std::byte> period, std::uint64_t first_byte,
                          std::size_t element) {
  std::uint64_t wrong = 0;
  std::size_t at = first_byte % period.size();
  while (!got.empty()) {
    const std::size_t n = std::min(got.size(), period.size() - at);
    if (std::memcmp(got.data(), period.data() + at, n) != 0) {
      for (std::size_t i = 0; i < n; i += element) {
        if (std::memcmp(got.data() + i, period.data() + at + i, element) != 0) ++wrong;
      }
    }
    got = got.subspan(n);
    at = 0;
  }
  return wrong;
}

}  // namespace

Pattern::Pattern(lockstep_data_type type, lockstep_op op, std::uint32_t world)
    : type_(type), op_(op), world_(world), element_(lockstep_data_type_size(type)) {}

std::uint64_t Pattern::value(std::uint32_t rank, std::uint64_t index) const {
  const std::uint64_t noise = mix64(index * 1'000'003 + rank);
  switch (op_) {
    case LOCKSTEP_SUM:  // 256 is the last whole number that bf16 can count up to
      return noise % std::clamp<std::uint64_t>(256 / world_, 1, 8);
    // the sum is a multiple of the world size; sums of up to 11 peers fit into i8; with more peers, all values are
    // equal
    case LOCKSTEP_AVG: return world_ <= 11 ? world_ * (noise % 2) : mix64(index) % 2;
    case LOCKSTEP_PROD:  // powers of two, which floats represent exactly; in f16 up to the 15th
      return world_ <= 15 ? 1 + noise % 2 : 1;
    case LOCKSTEP_MIN:
    case LOCKSTEP_MAX:
    case LOCKSTEP_BAND:
    case LOCKSTEP_BOR:
    case LOCKSTEP_BXOR: return noise % (type_ == LOCKSTEP_BOOL ? 2 : 128);
  }
  return 0;
}

std::vector<std::byte> Pattern::period_of(std::uint32_t rank) const {
  std::vector<std::byte> period(kPeriod * element_);
  for (std::uint64_t i = 0; i < kPeriod; ++i) encode(type_, value(rank, i), period.data() + i * element_);
  return period;
}

std::vector<std::byte> Pattern::folded_period() const {
  std::vector<std::byte> period(kPeriod * element_);
  for (std::uint64_t i = 0; i < kPeriod; ++i) {
    std::uint64_t fold = value(0, i);
    for (std::uint32_t rank = 1; rank < world_; ++rank) {
      const std::uint64_t next = value(rank, i);
      switch (op_) {
        case LOCKSTEP_SUM:
        case LOCKSTEP_AVG: fold += next; break;
        case LOCKSTEP_PROD: fold *= next; break;
        case LOCKSTEP_MIN: fold = std::min(fold, next); break;
        case LOCKSTEP_MAX: fold = std::max(fold, next); break;
        case LOCKSTEP_BAND: fold &= next; break;
        case LOCKSTEP_BOR: fold |= next; break;
        case LOCKSTEP_BXOR: fold ^= next; break;
      }
    }
    if (op_ == LOCKSTEP_AVG && world_ <= 11) fold /= world_;
    if (op_ == LOCKSTEP_AVG && world_ > 11) fold = value(0, i);
    encode(type_, fold, period.data() + i * element_);
  }
  return period;
}

void Pattern::fill(std::span<std::byte> out, std::uint32_t rank, std::uint64_t first) const {
  repeat(out, period_of(rank), first * element_);
}

std::uint64_t Pattern::wrong_in_fold(std::span<const std::byte> got, std::uint64_t first) const {
  return count_wrong(got, folded_period(), first * element_, element_);
}

std::uint64_t Pattern::far_from_fold(std::span<const std::byte> got, double part) const {
  const auto floats = [](std::span<const std::byte> bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  const std::vector<float> fold = floats(folded_period());
  const double bound = static_cast<double>(*std::max_element(fold.begin(), fold.end())) * part;
  const std::vector<float> values = floats(got);
  std::uint64_t far = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = std::fabs(static_cast<double>(values[i]) - static_cast<double>(fold[i % kPeriod]));
    if (!(error <= bound)) ++far;
  }
  return far;
}

std::uint64_t Pattern::wrong_in_copy(std::span<const std::byte> got, std::uint32_t rank) const {
  return count_wrong(got, period_of(rank), 0, element_);
}

}  // namespace lockstep::cli
