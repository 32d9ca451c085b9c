// A run token: one string with all that a peer needs to join a run: "lks1_...". It has the coordinator's addresses and
// the digest of its public key, so that the peer knows the right coordinator before it says anything; and a secret that
// shows the coordinator that the peer may join. docs/security.md explains its use.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/io/identity.h"

namespace lockstep::wire {

struct RunToken {
  using Secret = std::array<std::uint8_t, 16>;

  std::vector<std::string> coordinators;  // "host:port"; at least one, at most kMaxTokenAddresses
  io::KeyDigest coordinator_key;
  io::TokenId id;
  io::Role role = io::Role::kMember;
  Secret secret{};
  std::int64_t expires = 0;  // seconds since 1970, UTC; 0: never

  bool operator==(const RunToken&) const = default;
};

inline constexpr std::string_view kRunTokenPrefix = "lks1_";

// Whether the text is meant to be a run token, and not an address.
bool is_run_token(std::string_view text);
// The string that users hand on. Holds the secret: never log it.
std::string text_of(const RunToken& token);
// The error says what is wrong and never repeats the text.
Result<RunToken> parse_run_token(std::string_view text);
// The name of a token in logs: 16 hexadecimal digits.
std::string name_of(io::TokenId id);
// `text` with the part of every run token that holds the secret replaced by "...", for logs and error texts. A token
// that is mistyped, or broken by white space, counts as one.
std::string redacted(std::string_view text);

}  // namespace lockstep::wire
