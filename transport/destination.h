// The coordinator that a program names, in any of its forms: a run token, an address, or where one of them is written.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "transport/connector.h"
#include "transport/tls/credentials.h"

namespace lockstep::transport {

struct Destination {
  std::string addresses;  // "host:port", or several with commas; no secret, so that texts may show it
  Security security;
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
