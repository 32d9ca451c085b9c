// Sixteen bytes that stand for a stretch of memory, however long: the sum says who contributed and how often, the chain
// in which order it was folded. Both add up over neighbouring stretches, so that a region has one token whatever its
// pieces.
#pragma once

#include <bit>
#include <cstdint>

#include "core/base/data_type.h"
#include "core/base/rng.h"
#include "core/kernels/formats/format.h"

namespace lockstep::sim {

struct Token {
  std::uint64_t sum = 0;
  std::uint64_t chain = 0;

  constexpr bool operator==(const Token&) const = default;
  constexpr Token& operator+=(const Token& other) {
    sum += other.sum;
    chain += other.chain;
    return *this;
  }
};

// The token of bytes [begin, end) of an application's content. A difference of keyed hashes of the borders, so that the
// tokens of pieces add up to the token of the whole.
constexpr Token token_of_content(std::uint64_t content, std::uint64_t begin, std::uint64_t end) {
  if (begin == end) return {};
  const std::uint64_t sum = mix64(content);
  const std::uint64_t chain = mix64(sum);
  return {mix64(sum ^ end) - mix64(sum ^ begin), mix64(chain ^ end) - mix64(chain ^ begin)};
}

// in op own, this way around; divided by `divisor` when that is not 0.
constexpr Token fold(const Token& in, const Token& own, DataType type, ReduceOp op, std::uint32_t divisor) {
  const auto how = static_cast<std::uint64_t>(type) << 8U | static_cast<std::uint64_t>(op);
  return {in.sum + own.sum, draw(in.chain, 3, own.chain, how, divisor)};
}

// What a contribution is before it is encoded for the first time; the sum with another; what travels; and what that is
// read as.
constexpr Token weighed(const Token& own, float weight) {
  return {own.sum, draw(own.chain, 7, std::bit_cast<std::uint32_t>(weight))};
}
constexpr Token add_weighted(const Token& in, const Token& own, float weight, float total) {
  return {in.sum + own.sum,
          draw(in.chain, 8, own.chain, std::bit_cast<std::uint32_t>(weight), std::bit_cast<std::uint32_t>(total))};
}
constexpr Token encoded(const Token& token, WireFormat format) {
  return {token.sum, draw(token.chain, 9, static_cast<std::uint64_t>(format))};
}
constexpr Token decoded(const Token& token, WireFormat format) {
  return {token.sum, draw(token.chain, 10, static_cast<std::uint64_t>(format))};
}

// A contribution with its residual; and what is left when that has gone.
constexpr Token corrected(const Token& own, const Token& residual) {
  return {own.sum + residual.sum, draw(own.chain, 11, residual.chain)};
}
constexpr Token left_of(const Token& corrected, float weight, WireFormat format) {
  return {corrected.sum,
          draw(corrected.chain, 12, std::bit_cast<std::uint32_t>(weight), static_cast<std::uint64_t>(format))};
}

constexpr std::uint64_t checksum_of(const Token& token, std::uint64_t length) {
  return length == 0 ? 0x2d06800538d394c2U : draw(token.sum, 4, token.chain, length);  // XXH3-64 of nothing
}

}  // namespace lockstep::sim
