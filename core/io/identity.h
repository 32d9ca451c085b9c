// The identity that the other end of a stream has proved to the transport. Core compares these values and never
// computes them: the cryptography is in transport/tls/.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "core/base/ids.h"

namespace lockstep::io {

// SHA-256 of a public key (of its SubjectPublicKeyInfo, RFC 5280). All zero: no key.
struct KeyDigest {
  std::array<std::uint8_t, 32> bytes{};

  auto operator<=>(const KeyDigest&) const = default;
  [[nodiscard]] bool is_none() const {
    return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
  }
  template <typename Archive>
  void archive(Archive& a) {
    a.all(bytes);
  }
};

// The public name of a run token; 0: no token. The token's secret never reaches core.
using TokenId = Number<struct TokenName, std::uint64_t>;

// The rights of a token. An observer may ask for the status of the run, and has no other right. An administrator may
// also evict peers. Neither may join.
enum class Role : std::uint8_t { kMember, kObserver, kAdmin };
inline constexpr std::uint8_t kRoleCount = 3;

// A plain stream proves nothing.
struct Identity {
  KeyDigest key;        // the other end holds the private key
  TokenId token;        // the token that the other end named; 0: none
  bool proved = false;  // the other end holds the secret of this token, and the token is one of ours
  // In words, at most kMaxIdentityBytes; empty: not a run with certificates.
  std::string certificate{};  // "'CN=a' (SHA-256 AB:CD:...)"
  // Why this side cannot tell whether the certificate is valid: a fault of this side. Then `proved` is false.
  std::string doubt{};

  auto operator<=>(const Identity&) const = default;
  template <typename Archive>
  void archive(Archive& a) {
    a.all(key, token, proved, certificate, doubt);
  }
};

}  // namespace lockstep::io
