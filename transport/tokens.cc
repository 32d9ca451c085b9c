#include "transport/tokens.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core/base/assert.h"
#include "core/base/text.h"
#include "core/wire/limits.h"
#include "transport/address.h"
#include "transport/entropy.h"

namespace lockstep::transport {
namespace {

constexpr std::string_view kRoleNames[] = {"member", "observer", "admin"};
static_assert(std::size(kRoleNames) == io::kRoleCount);

Error unfit(std::string text) { return {Status::kInvalidArgument, std::move(text)}; }

TokenRecord* record_of(TokenFile& file, io::TokenId id) {
  const auto found = std::ranges::find(file.tokens, id, &TokenRecord::id);
  return found == file.tokens.end() ? nullptr : &*found;
}

// The tokens for which `fits` is true.
template <typename Fits>
std::vector<TokenRecord> all_that(const TokenFile& file, Fits fits) {
  std::vector<TokenRecord> out;
  std::ranges::copy_if(file.tokens, std::back_inserter(out), fits);
  return out;
}

Error ambiguous(std::string_view which, const std::vector<TokenRecord>& tokens) {
  constexpr std::size_t kMost = 4;
  std::string ids;
  for (const TokenRecord& token : std::span(tokens).first(std::min(tokens.size(), kMost))) {
    ids += (ids.empty() ? "" : ", ") + wire::name_of(token.id);
  }
  return unfit(fmt::format("'{}' names {} tokens ({}{}): give the whole id", which, tokens.size(), ids,
                           tokens.size() > kMost ? ", ..." : ""));
}

}  // namespace

std::string_view role_name(io::Role role) { return kRoleNames[static_cast<std::size_t>(role)]; }

std::optional<io::Role> role_of(std::string_view name) {
  for (std::uint8_t i = 0; i < io::kRoleCount; ++i) {
    if (kRoleNames[i] == name) return static_cast<io::Role>(i);
  }
  return std::nullopt;
}

TokenState state_of(const TokenRecord& token, std::int64_t now) {
  if (token.revoked) return TokenState::kRevoked;
  if (token.single_use && token.used) return TokenState::kUsed;
  return token.expires != 0 && token.expires <= now ? TokenState::kExpired : TokenState::kValid;
}

std::string_view name_of(TokenState state) {
  switch (state) {
    case TokenState::kValid: return "valid";
    case TokenState::kUsed: return "used";
    case TokenState::kExpired: return "expired";
    case TokenState::kRevoked: return "revoked";
  }
  LOCKSTEP_UNREACHABLE();
}

TokenRecord random_token() {
  TokenRecord token;
  while (token.id.value == 0) token.id = {random_u64()};
  fill_random(token.secret);
  return token;
}

std::optional<Error> validate_token_addresses(const std::vector<std::string>& addresses) {
  if (addresses.empty()) return unfit("a token needs an address of the coordinator");
  if (addresses.size() > kMaxTokenAddresses) {
    return unfit(fmt::format("a token has at most {} addresses, not {}", kMaxTokenAddresses, addresses.size()));
  }
  for (const std::string& address : addresses) {
    if (address.size() > kMaxTokenAddressBytes) {
      return unfit(fmt::format("an address in a token has at most {} bytes: '{}...' has {}", kMaxTokenAddressBytes,
                               plain(cut(address, 32)), address.size()));
    }
    if (!is_plain(address)) return unfit(fmt::format("bad address '{}': it is no plain text", plain(address)));
    const auto parsed = parse_destination(address);
    if (!parsed) return parsed.error();
    if (names_every_address(parsed->host)) {
      return unfit(
          fmt::format("bad address '{}': a program listens there, and nobody can dial it from elsewhere; give "
                      "the address by which peers reach the coordinator's machine",
                      address));
    }
  }
  return std::nullopt;
}

std::optional<Error> add_token(TokenFile& file, TokenRecord token) {
  LOCKSTEP_ASSERT(token.id.value != 0);
  if (file.tokens.size() >= kMaxTokens) {
    return unfit(fmt::format("the list has {} tokens, and holds no more: begin a new file", file.tokens.size()));
  }
  if (!is_plain(token.name))
    return unfit("the name of a token is plain text: UTF-8 without control and invisible characters");
  if (token.name.size() > kMaxNameBytes) {
    return unfit(fmt::format("the name of a token has {} bytes; at most {}", token.name.size(), kMaxNameBytes));
  }
  if (record_of(file, token.id) != nullptr) {
    return unfit(fmt::format("there is a token {} already", wire::name_of(token.id)));
  }
  const auto has_name = [&](const TokenRecord& other) {
    return !token.name.empty() && other.name == token.name && !other.revoked;
  };
  if (const auto other = std::ranges::find_if(file.tokens, has_name); other != file.tokens.end()) {
    return unfit(fmt::format("token {} has the name '{}': choose another name, or revoke that token",
                             wire::name_of(other->id), token.name));
  }
  file.tokens.push_back(std::move(token));
  return std::nullopt;
}

Result<io::TokenId> find_token(const TokenFile& file, std::string_view which) {
  if (wire::is_run_token(which)) {
    const auto token = wire::parse_run_token(which);
    return token ? find_token(file, wire::name_of(token->id)) : Result<io::TokenId>(token.error());
  }
  const std::string shown = plain(cut(which, kMaxNameBytes));
  const auto has_id = [&](const TokenRecord& token) { return wire::name_of(token.id) == which; };
  const auto has_name = [&](const TokenRecord& token) { return !which.empty() && token.name == which; };
  const auto is_live = [&](const TokenRecord& token) { return has_name(token) && !token.revoked; };
  const auto begins = [&](const TokenRecord& token) {
    return which.size() >= kLeastPrefix && wire::name_of(token.id).starts_with(which);
  };
  auto found = all_that(file, has_id);
  if (found.empty()) found = all_that(file, is_live);
  if (found.empty()) found = all_that(file, has_name);
  if (found.empty()) found = all_that(file, begins);
  if (found.size() == 1) return found.front().id;
  if (found.size() > 1) return ambiguous(shown, found);
  return unfit(fmt::format("there is no token '{}': give its name, its id or at least the first {} digits of its id",
                           shown, kLeastPrefix));
}

Result<TokenRecord> revoke_token(TokenFile& file, std::string_view which) {
  const auto id = find_token(file, which);
  if (!id) return id.error();
  TokenRecord* const token = record_of(file, *id);
  token->revoked = true;
  return *token;
}

void use_token(TokenFile& file, io::TokenId id) {
  if (TokenRecord* const token = record_of(file, id)) token->used = token->single_use;
}

wire::RunToken run_token(const TokenFile& file, const TokenRecord& token, std::vector<std::string> addresses) {
  LOCKSTEP_ASSERT(!validate_token_addresses(addresses));
  return {.coordinators = std::move(addresses),
          .coordinator_key = file.key_digest,
          .id = token.id,
          .role = token.role,
          .secret = token.secret,
          .expires = token.expires};
}

}  // namespace lockstep::transport
