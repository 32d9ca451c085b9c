// Base32 as run tokens use it, one bit after the other: the truth for core/wire/run_token.cc, and a way to tokens with
// any body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/kernels/checksum.h"
#include "core/wire/run_token.h"

namespace lockstep::fuzz {

inline constexpr std::string_view kBase32Digits = "abcdefghijklmnopqrstuvwxyz234567";
inline constexpr std::size_t kTokenChecksumBytes = 5;

inline std::string base32_of(std::span<const std::byte> bytes) {
  std::string text;
  std::size_t digit = 0;
  for (std::size_t bit = 0; bit < 8 * bytes.size() || bit % 5 != 0; ++bit) {
    const bool is_set =
        bit / 8 < bytes.size() && (std::to_integer<unsigned>(bytes[bit / 8]) >> (7 - bit % 8) & 1U) != 0;
    digit = 2 * digit + (is_set ? 1 : 0);
    if (bit % 5 != 4) continue;
    text += kBase32Digits[digit];
    digit = 0;
  }
  return text;
}

inline std::vector<std::byte> bytes_of_base32(std::string_view text) {
  std::vector<std::byte> bytes(5 * text.size() / 8);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const std::size_t digit = kBase32Digits.find(text[bit / 5]);
    if ((digit >> (4 - bit % 5) & 1U) != 0) bytes[bit / 8] |= std::byte{0x80} >> static_cast<int>(bit % 8);
  }
  return bytes;
}

// A text with this body and the right checksum.
inline std::string token_text(std::span<const std::byte> body) {
  std::vector<std::byte> bytes(body.begin(), body.end());
  const std::uint64_t sum = checksum(body);
  for (std::size_t i = 0; i < kTokenChecksumBytes; ++i) bytes.push_back(static_cast<std::byte>(sum >> 8 * i & 0xffU));
  return std::string(wire::kRunTokenPrefix) + base32_of(bytes);
}

// The body of a text that token_text() or wire::text_of() made.
inline std::vector<std::byte> token_body(std::string_view text) {
  auto bytes = bytes_of_base32(text.substr(wire::kRunTokenPrefix.size()));
  bytes.resize(bytes.size() - kTokenChecksumBytes);
  return bytes;
}

}  // namespace lockstep::fuzz
