// Any bytes as a run token: the first byte chooses whether the rest is a text, or the body of a token that gets the
// right checksum. The text is refused in words that do not repeat it, or it is the text of the token that it gives. No
// redacted text has a secret.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/assert.h"
#include "core/base/text.h"
#include "core/wire/limits.h"
#include "core/wire/run_token.h"
#include "fuzz/base32.h"
#include "fuzz/door.h"

namespace wire = lockstep::wire;

namespace {

constexpr std::size_t kLongestError = 120;

void look_at_redacted(const std::string& text) {
  const std::string safe = wire::redacted(text);
  LOCKSTEP_ASSERT(wire::redacted(safe) == safe);
  for (auto at = safe.find(wire::kRunTokenPrefix); at != std::string::npos; at = safe.find(wire::kRunTokenPrefix, at)) {
    at += wire::kRunTokenPrefix.size();
    LOCKSTEP_ASSERT(at == safe.size() || lockstep::fuzz::kBase32Digits.find(safe[at]) == std::string_view::npos);
  }
}

void look_at_token(const wire::RunToken& token) {
  LOCKSTEP_ASSERT(!token.coordinators.empty() && token.coordinators.size() <= lockstep::kMaxTokenAddresses);
  for (const std::string& address : token.coordinators) {
    LOCKSTEP_ASSERT(!address.empty() && address.size() <= lockstep::kMaxTokenAddressBytes);
    LOCKSTEP_ASSERT(lockstep::is_plain(address));
  }
  LOCKSTEP_ASSERT(token.id.value != 0 && token.expires >= 0);
  LOCKSTEP_ASSERT(static_cast<std::uint8_t>(token.role) < lockstep::io::kRoleCount);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  std::string text(reinterpret_cast<const char*>(rest.data()), rest.size());
  if (data[0] % 2 == 1) text = lockstep::fuzz::token_text(rest);
  look_at_redacted(text);
  const auto token = wire::parse_run_token(text);
  if (!token) {
    LOCKSTEP_ASSERT(token.error().text.size() <= kLongestError && lockstep::is_plain(token.error().text));
    return 0;
  }
  look_at_token(*token);
  LOCKSTEP_ASSERT(wire::is_run_token(text));
  const std::size_t first = text.find(wire::kRunTokenPrefix);
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  LOCKSTEP_ASSERT(wire::text_of(*token) == text.substr(first, last - first + 1));
  return 0;
}
