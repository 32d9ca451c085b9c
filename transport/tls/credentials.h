// What one machine proves to others by TLS, and what it demands of them.
//
// TLS 1.3 only, both sides with a key (transport/tls/key_pair.h). A dialler may know the key of the coordinator in
// advance, from a run token; it then says nothing to any other. The token's secret is never sent: the dialler sends a
// MAC of the session's keying material (RFC 5705), which is of no use on any other session.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "core/io/identity.h"
#include "core/wire/run_token.h"
#include "transport/tls/key_pair.h"

namespace lockstep::transport::tls {

using Secret = wire::RunToken::Secret;
using Secrets = std::map<io::TokenId, Secret>;

// Not thread-safe: used by the owner of the reactor's loop only.
class Credentials {
 public:
  // Keys are renewed after so many bytes of one direction: AES-GCM may encrypt some 388 GB with one key (RFC 8446,
  // section 5.5), and OpenSSL does not count.
  static constexpr std::uint64_t kRekeyBytes = std::uint64_t{64} << 30U;

  // Of a peer that joins by this token.
  explicit Credentials(const wire::RunToken& token, std::uint64_t rekey_bytes = kRekeyBytes);
  // Of a coordinator, which knows the secrets of its tokens.
  Credentials(KeyPair keys, Secrets secrets, std::uint64_t rekey_bytes = kRekeyBytes);
  // Of a peer's listener, or of a dialler that has no token.
  explicit Credentials(KeyPair keys, std::uint64_t rekey_bytes = kRekeyBytes);

  [[nodiscard]] SSL_CTX* context() const { return context_.get(); }
  [[nodiscard]] const io::KeyDigest& digest() const { return keys_.digest(); }
  [[nodiscard]] std::uint64_t rekey_bytes() const { return rekey_bytes_; }

  // ---- of a dialler ----

  // The only key that a stream to the coordinator may show; nothing: any.
  [[nodiscard]] const std::optional<io::KeyDigest>& coordinator_key() const { return coordinator_key_; }
  struct Token {
    io::TokenId id;
    Secret secret{};
  };
  [[nodiscard]] const Token& token() const { return token_; }

  // ---- of a coordinator ----

  // Whether diallers say who they are by a token.
  [[nodiscard]] bool asks_for_proof() const { return secrets_.has_value(); }
  // The tokens that can be proved from now on.
  void set_secrets(Secrets secrets) { secrets_ = std::move(secrets); }
  // Null: not one of ours.
  [[nodiscard]] const Secret* secret_of(io::TokenId id) const;

 private:
  KeyPair keys_;
  std::uint64_t rekey_bytes_;
  ContextPtr context_;
  std::optional<io::KeyDigest> coordinator_key_;
  Token token_;
  std::optional<Secrets> secrets_;
};

// Shows that its sender holds the secret, in one session: HMAC-SHA256 over the token's id and the keying material.
using Mac = std::array<std::byte, 32>;
Mac mac_of(const Secret& secret, io::TokenId id, std::span<const std::byte> keying_material);
// In constant time.
bool equal(const Mac& a, const Mac& b);
bool equal(const Secret& a, const Secret& b);

}  // namespace lockstep::transport::tls
