// The wire formats of f32 elements. A smaller format is less exact; reference.h defines the errors and the bytes.
// Tensors of other types travel in their native form. The numbers are part of the wire and the ABI.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/assert.h"

namespace lockstep {

enum class WireFormat : std::uint8_t {
  kNative,  // unchanged f32
  kBF16,
  kF16,
  kInt8,          // 8 bits relative to the largest magnitude of a block; the default among the lossy formats
  kInt8MinMax,    // 8 bits between the smallest and the largest value of a block
  kInt8Codebook,  // 8 bits: the index of one of 256 means, after INTELLECT-1
  kInt4,          // like kInt8, with 4 bits
  kE3M0,          // 4 bits: a sign and a power of two, after Streaming DiLoCo
};
inline constexpr std::uint8_t kWireFormatCount = 8;

// Elements are encoded in independent blocks; the remainder is a shorter block. So a tensor may be cut between blocks,
// and the concatenated encodings of its pieces are the encoding of the whole tensor.
struct BlockLayout {
  std::size_t elements = 1;     // in a whole block
  std::size_t code_bits = 0;    // bits of each element; the codes of a block fill whole bytes
  std::size_t extra_bytes = 0;  // bytes after the codes of each block, whatever its length
};

constexpr BlockLayout layout_of(WireFormat format) {
  switch (format) {
    case WireFormat::kNative: return {.elements = 1, .code_bits = 32, .extra_bytes = 0};
    case WireFormat::kBF16:
    case WireFormat::kF16: return {.elements = 1, .code_bits = 16, .extra_bytes = 0};
    case WireFormat::kInt8: return {.elements = 256, .code_bits = 8, .extra_bytes = 4};        // f32 scale
    case WireFormat::kInt8MinMax: return {.elements = 256, .code_bits = 8, .extra_bytes = 8};  // f32 lowest, f32 step
    case WireFormat::kInt8Codebook: return {.elements = 4096, .code_bits = 8, .extra_bytes = 1024};  // 256 f32 means
    case WireFormat::kInt4: return {.elements = 64, .code_bits = 4, .extra_bytes = 4};               // f32 scale
    case WireFormat::kE3M0: return {.elements = 64, .code_bits = 4, .extra_bytes = 1};               // u8 exponent
  }
  LOCKSTEP_UNREACHABLE();
}

constexpr std::size_t bits_of(WireFormat format) { return layout_of(format).code_bits; }

// The bytes of an encoding of `elements` elements.
constexpr std::size_t encoded_size(WireFormat format, std::size_t elements) {
  const BlockLayout layout = layout_of(format);
  const auto blocks = elements / layout.elements + (elements % layout.elements != 0 ? 1 : 0);
  const auto codes = layout.code_bits == 4 ? elements / 2 + elements % 2 : elements * (layout.code_bits / 8);
  return codes + blocks * layout.extra_bytes;  // only the last block can have an odd number of codes
}

// The wire formats of one call: of contributions and their sums (up), and of results (down).
struct Formats {
  WireFormat up = WireFormat::kNative;
  WireFormat down = WireFormat::kNative;

  [[nodiscard]] constexpr bool native() const { return up == WireFormat::kNative && down == WireFormat::kNative; }
  // The elements of a block in the format with the larger blocks. Invariant: the larger block size is a multiple of the
  // smaller one.
  [[nodiscard]] constexpr std::size_t block_elements() const {
    return layout_of(up).elements > layout_of(down).elements ? layout_of(up).elements : layout_of(down).elements;
  }
  constexpr auto operator<=>(const Formats&) const = default;
};

inline constexpr std::string_view kWireFormatNames[] = {"native",       "bf16",          "f16",  "int8",
                                                        "int8-min-max", "int8-codebook", "int4", "e3m0"};

constexpr std::string_view name_of(WireFormat format) { return kWireFormatNames[static_cast<std::size_t>(format)]; }

constexpr std::optional<WireFormat> wire_format_named(std::string_view name) {
  for (std::uint8_t i = 0; i < kWireFormatCount; ++i) {
    if (kWireFormatNames[i] == name) return static_cast<WireFormat>(i);
  }
  return std::nullopt;
}

}  // namespace lockstep
