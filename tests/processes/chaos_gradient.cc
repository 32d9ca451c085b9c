#include "tests/processes/chaos_gradient.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/base/assert.h"
#include "core/base/rng.h"
#include "tests/processes/chaos_settings.h"

namespace lockstep::testing {
namespace {

template <typename T>
T fold(ReduceOp op, T a, T b) {
  using U = std::make_unsigned_t<T>;
  using Wide = std::common_type_t<U, unsigned>;  // small types would be promoted to int, which must not overflow
  const auto wide = [](T v) { return static_cast<Wide>(static_cast<U>(v)); };
  switch (op) {
    case ReduceOp::kSum: return static_cast<T>(static_cast<U>(wide(a) + wide(b)));
    case ReduceOp::kProd: return static_cast<T>(static_cast<U>(wide(a) * wide(b)));
    case ReduceOp::kMin: return std::min(a, b);
    case ReduceOp::kMax: return std::max(a, b);
    case ReduceOp::kBitAnd: return static_cast<T>(a & b);
    case ReduceOp::kBitOr: return static_cast<T>(a | b);
    case ReduceOp::kBitXor: return static_cast<T>(a ^ b);
    case ReduceOp::kAvg: break;
  }
  LOCKSTEP_UNREACHABLE();
}

template <typename T>
bool folds_exactly(const Gradient& gradient, std::uint64_t step, const std::vector<PeerId>& contributors) {
  const std::uint64_t stride = std::max<std::uint64_t>(1, gradient.count / 61);
  for (std::uint64_t i = 0; i < gradient.count; i += stride) {
    T expected = static_cast<T>(element_bits(contributors.front(), step, gradient.tag, i));
    for (std::size_t c = 1; c < contributors.size(); ++c) {
      expected = fold(gradient.op, expected, static_cast<T>(element_bits(contributors[c], step, gradient.tag, i)));
    }
    T actual;
    std::memcpy(&actual, gradient.output.data() + i * sizeof(T), sizeof(T));
    if (actual != expected) return false;
  }
  return true;
}

// One contributor's byte is the result; among several, the number of true ones decides.
bool folds_truths_exactly(const Gradient& gradient, std::uint64_t step, const std::vector<PeerId>& contributors) {
  for (std::uint64_t i = 0; i < gradient.count; ++i) {
    const auto byte_of = [&](PeerId peer) {
      return static_cast<std::byte>(element_bits(peer, step, gradient.tag, i) & 0xffU);
    };
    std::byte expected = byte_of(contributors.front());
    if (contributors.size() > 1) {
      const auto trues =
          std::ranges::count_if(contributors, [&](PeerId peer) { return byte_of(peer) != std::byte{0}; });
      const bool any = trues > 0;
      const bool all = static_cast<std::size_t>(trues) == contributors.size();
      const ReduceOp op = gradient.op;
      const bool is_any = op == ReduceOp::kSum || op == ReduceOp::kMax || op == ReduceOp::kBitOr;
      const bool truth = op == ReduceOp::kBitXor ? trues % 2 == 1 : is_any ? any : all;
      expected = truth ? std::byte{1} : std::byte{0};
    }
    if (gradient.output[i] != expected) return false;
  }
  return true;
}

}  // namespace

std::uint64_t element_bits(PeerId peer, std::uint64_t step, Tag tag, std::uint64_t index) {
  return mix64(draw(peer.low, kInput, step, tag.value) + index);
}

bool is_exact(const Gradient& gradient, std::uint64_t step, const std::vector<PeerId>& contributors) {
  if (gradient.op == ReduceOp::kAvg) return true;
  switch (gradient.type) {
    case DataType::kU8: return folds_exactly<std::uint8_t>(gradient, step, contributors);
    case DataType::kI8: return folds_exactly<std::int8_t>(gradient, step, contributors);
    case DataType::kU16: return folds_exactly<std::uint16_t>(gradient, step, contributors);
    case DataType::kI16: return folds_exactly<std::int16_t>(gradient, step, contributors);
    case DataType::kU32: return folds_exactly<std::uint32_t>(gradient, step, contributors);
    case DataType::kI32: return folds_exactly<std::int32_t>(gradient, step, contributors);
    case DataType::kU64: return folds_exactly<std::uint64_t>(gradient, step, contributors);
    case DataType::kI64: return folds_exactly<std::int64_t>(gradient, step, contributors);
    case DataType::kF16:
    case DataType::kBF16:
    case DataType::kF32:
    case DataType::kF64: return true;
    case DataType::kBool: return folds_truths_exactly(gradient, step, contributors);
  }
  LOCKSTEP_UNREACHABLE();
}

}  // namespace lockstep::testing
