#include "core/io/stream.h"

#include <string_view>

namespace lockstep::io {
namespace {

void append_decimal(std::string& out, unsigned value) {
  if (value >= 10) append_decimal(out, value / 10);
  out += static_cast<char>('0' + value % 10);
}

// Lower case, without leading zeros.
void append_hex(std::string& out, unsigned value) {
  if (value >= 16) append_hex(out, value / 16);
  out += std::string_view("0123456789abcdef")[value % 16];
}

void append_v4(std::string& out, std::span<const std::uint8_t, 4> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += '.';
    append_decimal(out, bytes[i]);
  }
}

constexpr std::size_t kGroups = 8;  // groups of 16 bits in an IPv6 address

struct Run {
  std::size_t begin = 0;
  std::size_t length = 0;
};

// The run of zero groups that "::" replaces: the longest one, the first of equals, at least two groups (RFC 5952,
// section 4.2).
Run compressed_run(const std::array<unsigned, kGroups>& groups) {
  Run best;
  Run current;
  for (std::size_t i = 0; i < kGroups; ++i) {
    if (groups[i] != 0) {
      current = {i + 1, 0};
      continue;
    }
    current.length += 1;
    if (current.length > best.length) best = current;
  }
  return best.length >= 2 ? best : Run{kGroups, 0};
}

void append_v6(std::string& out, const std::array<std::uint8_t, 16>& bytes) {
  std::array<unsigned, kGroups> groups{};
  for (std::size_t i = 0; i < kGroups; ++i) groups[i] = (unsigned{bytes[2 * i]} << 8U) | bytes[2 * i + 1];

  const bool maps_v4 =
      groups[0] == 0 && groups[1] == 0 && groups[2] == 0 && groups[3] == 0 && groups[4] == 0 && groups[5] == 0xffff;
  if (maps_v4) {  // RFC 5952, section 5
    out += "::ffff:";
    append_v4(out, std::span(bytes).subspan<12, 4>());
    return;
  }

  const Run run = compressed_run(groups);
  for (std::size_t i = 0; i < kGroups;) {
    if (i == run.begin) {
      out += "::";
      i += run.length;
      continue;
    }
    if (i > 0 && i != run.begin + run.length) out += ':';
    append_hex(out, groups[i]);
    ++i;
  }
}

}  // namespace

std::string Address::text() const {
  std::string out;
  switch (family) {
    case Family::kNone: return "none";
    case Family::kV4: append_v4(out, std::span(bytes).first<4>()); break;
    case Family::kV6:
      out += '[';
      append_v6(out, bytes);
      out += ']';
      break;
  }
  out += ':';
  append_decimal(out, port);
  return out;
}

}  // namespace lockstep::io
