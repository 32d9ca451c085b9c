// The coordinator that a program names, in any of its forms: a run token, an address, or where one of them is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/io/identity.h"
#include "transport/connector.h"
#include "transport/tls/credentials.h"

namespace lockstep::transport {

// What a run token says about itself, without its secret.
struct TokenTerms {
  io::TokenId id;
  io::Role role = io::Role::kMember;
  std::int64_t expires = 0;  // seconds since 1970, UTC; 0: never
};

struct Destination {
  std::string addresses;  // "host:port", or several with commas; no secret, so that texts may show it
  Security security;
  std::optional<TokenTerms> token{};  // if a run token names the coordinator
};

// How a program protects its streams where no token says so.
struct Protection {
  bool insecure = false;  // other machines are dialled and accepted without TLS
  tls::CertificateFiles certificates{};
};

// Forms: a run token "lks1_..."; "host:port", or several with commas; "file:PATH", whose first line is one of those;
// "env:NAME", a variable with one of those. An address is plain, or has TLS by certificates. The error never repeats a
// token. May throw std::bad_alloc.
Result<Destination> parse_coordinator(std::string_view text, const Protection& protection);

}  // namespace lockstep::transport
