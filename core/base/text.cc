#include "core/base/text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace lockstep {
namespace {

struct CodeRange {
  char32_t first;
  char32_t last;
};
// Default_Ignorable_Code_Point of Unicode 15; and U+2028, U+2029, U+FFF9 to U+FFFB.
constexpr CodeRange kInvisible[] = {
    {0x00ad, 0x00ad}, {0x034f, 0x034f}, {0x061c, 0x061c},   {0x115f, 0x1160},   {0x17b4, 0x17b5},  {0x180b, 0x180f},
    {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},   {0x3164, 0x3164},   {0xfe00, 0xfe0f},  {0xfeff, 0xfeff},
    {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};

// The length in bytes of the UTF-8 character at the front of a text (RFC 3629, section 4); 0 if there is none, or a
// control character.
std::size_t utf8_character(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
  };
  const auto within = [&](std::size_t i, unsigned lo, unsigned hi) { return byte(i) >= lo && byte(i) <= hi; };
  const auto follows = [&](std::size_t i) { return within(i, 0x80, 0xbf); };
  if (within(0, 0x20, 0x7e)) return 1;
  if (byte(0) == 0xc2) return within(1, 0xa0, 0xbf) ? 2 : 0;  // the rest are the control characters U+0080 to U+009F
  if (within(0, 0xc3, 0xdf)) return follows(1) ? 2 : 0;
  if (within(0, 0xe0, 0xef)) {
    const bool second = byte(0) == 0xe0 ? within(1, 0xa0, 0xbf) : byte(0) == 0xed ? within(1, 0x80, 0x9f) : follows(1);
    return second && follows(2) ? 3 : 0;
  }
  if (within(0, 0xf0, 0xf4)) {
    const bool second = byte(0) == 0xf0 ? within(1, 0x90, 0xbf) : byte(0) == 0xf4 ? within(1, 0x80, 0x8f) : follows(1);
    return second && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

char32_t code_of(std::string_view character) {
  const auto byte = [&](std::size_t i) { return char32_t{static_cast<std::uint8_t>(character[i])}; };
  if (character.size() == 1) return byte(0);
  char32_t code = byte(0) & (0xffU >> (character.size() + 1));
  for (std::size_t i = 1; i < character.size(); ++i) code = code << 6U | (byte(i) & 0x3fU);
  return code;
}

// The length in bytes of the plain character at the front of a text; 0 if there is none.
std::size_t plain_character(std::string_view text) {
  const std::size_t bytes = utf8_character(text);
  if (bytes < 2) return bytes;
  const char32_t code = code_of(text.substr(0, bytes));
  const auto holds = [code](const CodeRange& range) { return code >= range.first && code <= range.last; };
  return std::ranges::any_of(kInvisible, holds) ? 0 : bytes;
}

}  // namespace

bool is_plain(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = plain_character(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string_view cut(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0U) == 0x80U) --most;
  return text.substr(0, most);
}

std::string plain(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t bytes = plain_character(text);
    if (bytes == 0) {
      out += '?';
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out;
}

}  // namespace lockstep
