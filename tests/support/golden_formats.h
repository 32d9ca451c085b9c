// Checksums of the encodings of fixed values in each wire format. Every compiler and machine must compute the same
// values, so that each can read encodings of the others. tests/determinism checks builds without unit tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/kernels/checksum.h"
#include "core/kernels/formats/codec.h"
#include "tests/support/formats.h"

namespace lockstep::test {

struct FormatHashes {
  std::uint64_t encoded = 0;
  std::uint64_t decoded = 0;
  std::uint64_t average = 0;
  bool operator==(const FormatHashes&) const = default;
};

// In the order of WireFormat.
inline constexpr std::array<FormatHashes, kWireFormatCount> kGoldenFormats = {{
    {0x1ba0a6f5b32e4110U, 0x1ba0a6f5b32e4110U, 0xa62def2266ec2210U},  // native
    {0x27dba649b0c1e60bU, 0xb391ace7e39285e2U, 0x943747ca12947610U},  // bf16
    {0xce85cd43de435526U, 0x4d9b1816d05a65d1U, 0x81aa56f454bc4daeU},  // f16
    {0x8a9bf0a56ac9fcb8U, 0xab642319300c4872U, 0xdc9a881361e0a9b8U},  // int8
    {0xeab33fa75c50670bU, 0x40f8092660fa169U, 0x932c06fc5a4ff624U},   // int8-min-max
    {0xbcc506f9f35545f4U, 0x16c41192414db3e7U, 0x2b47829407c55114U},  // int8-codebook
    {0x827c506e3a41be34U, 0x8714bd4f0febbba6U, 0xec678e062ac1f995U},  // int4
    {0x3ba8d18fd527d6a8U, 0x5ff5caa82a9891eeU, 0x259d4be0f60d3649U},  // e3m0
}};

constexpr FormatHashes golden_hashes(WireFormat format) { return kGoldenFormats[static_cast<std::size_t>(format)]; }

// 13 thousand values of all styles; the average has two contributions with different weights. Nothing if a codec fails.
inline FormatHashes hashes_of(WireFormat format) {
  constexpr std::size_t kCount = 13'001;
  const std::vector<float> values = hostile_floats(1, kCount);
  std::vector<std::byte> encoded(encoded_size(format, kCount));
  std::vector<float> decoded(kCount);
  std::vector<float> sums(kCount);
  const auto sum_bytes = std::as_writable_bytes(std::span(sums));
  if (encode(format, encoded, bytes_of(values))) return {};
  if (!decode(format, std::as_writable_bytes(std::span(decoded)), encoded)) return {};
  if (!decode_add(WireFormat::kNative, sum_bytes, bytes_of(values), 0.3F)) return {};
  if (!decode_add(format, sum_bytes, encoded, 1.7F)) return {};
  divide_sums(sum_bytes, 2.0F);
  return {checksum(encoded), checksum(bytes_of(decoded)), checksum(bytes_of(sums))};
}

}  // namespace lockstep::test
