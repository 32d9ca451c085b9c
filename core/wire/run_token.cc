// The text of a run token: "lks1_", then a body in base32 (RFC 4648) with lower-case letters and without padding. The
// body, with numbers in little-endian order:
//
//   u8 version (1), u8 role, u64 token id, 16 bytes secret, 32 bytes digest of the coordinator's key, u64 expiry,
//   u8 number of addresses, each address as u8 and its bytes, u40 checksum: the low bits of the XXH3-64 of all before
//
// One token has one text. Later versions keep the prefix "lks<number>_" or the version byte and the checksum, so that
// this version can name them.
#include "core/wire/run_token.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

#include "core/base/text.h"
#include "core/kernels/checksum.h"
#include "core/wire/limits.h"

namespace lockstep::wire {
namespace {

constexpr std::string_view kBase32 = "abcdefghijklmnopqrstuvwxyz234567";
constexpr std::string_view kWhiteSpace = " \t\r\n";
constexpr std::uint8_t kTokenVersion = 1;
constexpr std::size_t kTokenChecksumBytes = 5;
constexpr std::size_t kLeastTokenBytes = 1 + kTokenChecksumBytes;  // of any version
constexpr std::string_view kNewer = "this run token was made by a newer release of Lockstep: upgrade this one";

constexpr std::size_t base32_characters(std::size_t bytes) { return (8 * bytes + 4) / 5; }
constexpr std::size_t kMostTokenBodyBytes =
    1 + 1 + 8 + 16 + 32 + 8 + 1 + kMaxTokenAddresses * (1 + kMaxTokenAddressBytes) + kTokenChecksumBytes;
static_assert(kRunTokenPrefix.size() + base32_characters(kMostTokenBodyBytes) <= kMaxRunTokenBytes);
static_assert(kMaxTokenAddresses <= 255 && kMaxTokenAddressBytes <= 255);  // counted by a byte

bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view without_space_around(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhiteSpace) - first + 1);
}

// The length of "lks<number>_" at the front of a text, in capitals or not; 0 if there is no such front.
std::size_t token_prefix(std::string_view text) {
  constexpr std::string_view kLetters = "lks";
  if (text.size() < kLetters.size()) return 0;
  if (!std::equal(kLetters.begin(), kLetters.end(), text.begin(), [](char a, char b) { return a == lower(b); })) {
    return 0;
  }
  std::size_t at = kLetters.size();
  while (at < text.size() && is_digit(text[at])) ++at;
  return at > kLetters.size() && at < text.size() && text[at] == '_' ? at + 1 : 0;
}

std::string base32(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve(base32_characters(bytes.size()));
  std::uint32_t pending = 0;  // the low `bits` bits are not written yet
  unsigned bits = 0;
  for (const std::byte byte : bytes) {
    pending = pending << 8U | std::to_integer<std::uint32_t>(byte);
    for (bits += 8; bits >= 5; bits -= 5) out += kBase32[pending >> (bits - 5) & 31U];
  }
  if (bits > 0) out += kBase32[pending << (5 - bits) & 31U];
  return out;
}

// Precondition: every character is one of kBase32. Nothing if no bytes have this text.
std::optional<std::vector<std::byte>> bytes_of_base32(std::string_view text) {
  std::vector<std::byte> out;
  out.reserve(text.size() * 5 / 8);
  std::uint32_t pending = 0;
  unsigned bits = 0;
  for (const char c : text) {
    pending = pending << 5U | static_cast<std::uint32_t>(kBase32.find(c));
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    out.push_back(static_cast<std::byte>(pending >> bits & 0xffU));
  }
  if (bits >= 5 || (pending & ((1U << bits) - 1)) != 0) return std::nullopt;
  return out;
}

std::array<std::byte, kTokenChecksumBytes> token_checksum(std::span<const std::byte> body) {
  const std::uint64_t sum = checksum(body);
  std::array<std::byte, kTokenChecksumBytes> out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(sum >> 8 * i & 0xffU);
  return out;
}

class TokenBytes {
 public:
  void number(std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) out_.push_back(static_cast<std::byte>(value >> 8 * i & 0xffU));
  }
  template <typename Bytes>
  void append(const Bytes& bytes) {
    const auto raw = std::as_bytes(std::span(bytes));
    out_.insert(out_.end(), raw.begin(), raw.end());
  }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return out_; }

 private:
  std::vector<std::byte> out_;
};

// Reads zeros after the end of its bytes; `is_short` tells.
class TokenFields {
 public:
  explicit TokenFields(std::span<const std::byte> bytes) : left_(bytes) {}

  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    const auto taken = take(bytes);
    for (std::size_t i = 0; i < taken.size(); ++i) value |= std::to_integer<std::uint64_t>(taken[i]) << 8 * i;
    return value;
  }
  void fill(std::span<std::uint8_t> into) {
    std::ranges::copy(take(into.size()), std::as_writable_bytes(into).begin());
  }
  std::string text() {
    std::string out;
    for (const std::byte byte : take(number(1))) out += static_cast<char>(byte);
    return out;
  }
  [[nodiscard]] bool is_short() const { return is_short_; }
  [[nodiscard]] bool is_at_end() const { return left_.empty(); }

 private:
  std::span<const std::byte> take(std::size_t bytes) {
    is_short_ = is_short_ || bytes > left_.size();
    if (is_short_) return {};
    const auto taken = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return taken;
  }

  std::span<const std::byte> left_;
  bool is_short_ = false;
};

// The reason why no token is like this; empty if one may be.
std::string_view fault(const RunToken& token) {
  if (token.id.value == 0) return "its id is 0";
  if (static_cast<std::uint8_t>(token.role) >= io::kRoleCount) return "its role is unknown";
  if (token.expires < 0) return "its expiry is before 1970";
  if (token.coordinators.empty()) return "it has no address";
  if (token.coordinators.size() > kMaxTokenAddresses) return "it has too many addresses";
  for (const std::string& address : token.coordinators) {
    if (address.empty()) return "an address is empty";
    if (address.size() > kMaxTokenAddressBytes) return "an address is too long";
    if (!is_plain(address)) return "an address is no plain text";
  }
  return {};
}

Error refused(std::string text) { return {Status::kInvalidArgument, std::move(text)}; }

Result<RunToken> decode_token(std::span<const std::byte> body) {
  TokenFields in(body);
  if (in.number(1) != kTokenVersion) return refused(std::string(kNewer));
  RunToken token;
  token.role = static_cast<io::Role>(in.number(1));
  token.id = {in.number(8)};
  in.fill(token.secret);
  in.fill(token.coordinator_key.bytes);
  token.expires = static_cast<std::int64_t>(in.number(8));
  for (std::uint64_t left = in.number(1); left > 0 && !in.is_short(); --left) token.coordinators.push_back(in.text());
  std::string_view why = fault(token);
  if (in.is_short()) why = "it ends too early";
  if (!in.is_short() && !in.is_at_end()) why = "it has bytes after its end";
  if (!why.empty()) return refused("the run token is malformed: " + std::string(why));
  return token;
}

}  // namespace

bool is_run_token(std::string_view text) { return token_prefix(without_space_around(text)) != 0; }

std::string text_of(const RunToken& token) {
  LOCKSTEP_ASSERT(fault(token).empty());
  TokenBytes body;
  body.number(kTokenVersion, 1);
  body.number(static_cast<std::uint8_t>(token.role), 1);
  body.number(token.id.value, 8);
  body.append(token.secret);
  body.append(token.coordinator_key.bytes);
  body.number(static_cast<std::uint64_t>(token.expires), 8);
  body.number(token.coordinators.size(), 1);
  for (const std::string& address : token.coordinators) {
    body.number(address.size(), 1);
    body.append(address);
  }
  body.append(token_checksum(body.bytes()));
  return std::string(kRunTokenPrefix) + base32(body.bytes());
}

Result<RunToken> parse_run_token(std::string_view text) {
  text = without_space_around(text);
  const std::size_t prefix = token_prefix(text);
  if (prefix == 0) return refused("a run token begins with " + std::string(kRunTokenPrefix));
  if (text.size() > kMaxRunTokenBytes) {
    return refused("a run token has at most " + std::to_string(kMaxRunTokenBytes) + " characters, and this text has " +
                   std::to_string(text.size()));
  }
  if (const std::size_t at = text.find_first_of(kWhiteSpace); at != std::string_view::npos) {
    return refused("character " + std::to_string(at + 1) + " of the run token is white space: a run token is one word");
  }
  if (!text.starts_with(kRunTokenPrefix)) {
    return refused(text.starts_with("lks") ? std::string(kNewer) : "a run token has no capital letters");
  }
  text.remove_prefix(prefix);
  if (const std::size_t at = text.find_first_not_of(kBase32); at != std::string_view::npos) {
    return refused("the run token is mistyped: character " + std::to_string(prefix + at + 1) +
                   " is not one of a to z and 2 to 7");
  }
  if (text.size() < base32_characters(kLeastTokenBytes)) {
    return refused("the run token is cut: it has only " + std::to_string(prefix + text.size()) + " characters");
  }
  const Error mistyped = refused("the run token is mistyped or cut: its checksum is wrong");
  const auto bytes = bytes_of_base32(text);
  if (!bytes) return mistyped;
  const auto body = std::span(*bytes).first(bytes->size() - kTokenChecksumBytes);
  if (!std::ranges::equal(token_checksum(body), std::span(*bytes).last(kTokenChecksumBytes))) return mistyped;
  return decode_token(body);
}

std::string name_of(io::TokenId id) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (unsigned shift = 64; shift > 0; shift -= 4) out += kDigits[id.value >> (shift - 4) & 15U];
  return out;
}

namespace {

// A mistyped token keeps most of its secret: other letters and digits than those of base32 are part of it, too.
bool may_be_of_token(char c) { return is_digit(c) || c == '_' || (lower(c) >= 'a' && lower(c) <= 'z'); }

bool is_space(char c) { return kWhiteSpace.find(c) != std::string_view::npos; }

std::size_t secret_at_front(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::find_if_not(text, may_be_of_token) - text.begin());
}

// The length of the rest of a token that white space breaks in two, as a mail or a terminal does; 0: there is none.
// Where such a text is quoted, a backslash and a letter stand for the white space.
std::size_t broken_rest(std::string_view text) {
  constexpr std::size_t kMostBetween = 16;
  constexpr std::size_t kLeastRest = 16;  // longer than most words that follow a whole token
  std::size_t between = 0;
  for (std::size_t step = 1; step > 0; between += step) {
    const std::string_view next = text.substr(between, 2);
    step = next.starts_with('\\') ? next.size() : static_cast<std::size_t>(!next.empty() && is_space(next.front()));
  }
  if (between == 0 || between > kMostBetween) return 0;
  const std::size_t rest = secret_at_front(text.substr(between));
  return rest < kLeastRest ? 0 : between + rest;
}

}  // namespace

std::string redacted(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t prefix = token_prefix(text);
    const std::size_t kept = std::max<std::size_t>(prefix, 1);
    out += text.substr(0, kept);
    text.remove_prefix(kept);
    std::size_t secret = prefix == 0 ? 0 : secret_at_front(text);
    if (secret == 0) continue;
    out += "...";
    for (; secret > 0; secret = broken_rest(text)) text.remove_prefix(secret);
  }
  return out;
}

}  // namespace lockstep::wire
