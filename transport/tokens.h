// The coordinator's list of run tokens (core/wire/run_token.h), as values: no file, no clock. The list holds secrets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/io/identity.h"
#include "core/wire/run_token.h"

namespace lockstep::transport {

inline constexpr std::size_t kMaxTokens = 10'000;  // in one list
inline constexpr std::size_t kLeastPrefix = 4;     // digits of an id that name a token

// What the coordinator knows about one token.
struct TokenRecord {
  io::TokenId id;
  wire::RunToken::Secret secret{};
  io::Role role = io::Role::kMember;
  std::string name;             // for people; empty: none
  std::int64_t expires = 0;     // seconds since 1970, UTC; 0: never
  std::uint32_t max_peers = 0;  // members at the same time; 0: no limit
  bool single_use = false;      // admits one peer, once
  bool used = false;            // a single use: it has admitted its peer
  bool revoked = false;

  bool operator==(const TokenRecord&) const = default;
};

// The contents of a token file.
struct TokenFile {
  std::string private_key;  // of the coordinator; PEM
  io::KeyDigest key_digest;
  std::vector<std::string> addresses;  // "host:port" of the coordinator, for tokens that name no others
  std::vector<TokenRecord> tokens;     // the oldest first

  bool operator==(const TokenFile&) const = default;
};

enum class TokenState : std::uint8_t { kValid, kUsed, kExpired, kRevoked };

std::string_view role_name(io::Role role);
std::optional<io::Role> role_of(std::string_view name);

TokenState state_of(const TokenRecord& token, std::int64_t now);
std::string_view name_of(TokenState state);

// A record with a random id and a random secret.
TokenRecord random_token();

// Why these cannot be the coordinator's addresses in a token; an empty list is one of the reasons.
std::optional<Error> validate_token_addresses(const std::vector<std::string>& addresses);

// Refuses an id that the list has, a name of a token that is not revoked, and a token above kMaxTokens.
std::optional<Error> add_token(TokenFile& file, TokenRecord token);

// Finds a token by its id, by its name, or by the first digits of its id, in this order. Of several tokens with one
// name, that is the one which is not revoked. The token's whole text names it, too.
Result<io::TokenId> find_token(const TokenFile& file, std::string_view which);

// The record that it revoked, or that was revoked before.
Result<TokenRecord> revoke_token(TokenFile& file, std::string_view which);

// Notes that a token for one use has admitted its peer. A token that the list does not have any more changes nothing.
void use_token(TokenFile& file, io::TokenId id);

// What peers get. Precondition: validate_token_addresses() finds nothing.
wire::RunToken run_token(const TokenFile& file, const TokenRecord& token, std::vector<std::string> addresses);

}  // namespace lockstep::transport
