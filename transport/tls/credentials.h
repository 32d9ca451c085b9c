// What one machine proves to others by TLS, and what it demands of them. TLS 1.3 only, both sides with a key.
//
// By a run token: keys are made at the start (transport/tls/key_pair.h). The dialler knows the key of the coordinator
// from its token, and says nothing to any other. The token's secret is never sent: the dialler sends a MAC of the
// session's keying material (RFC 5705), which is of no use on any other session.
//
// By certificates: an authority of the user's own has signed all keys. The coordinator's certificate must name the host
// that the peer dials.
//
// Between peers, core compares keys: the coordinator has checked them, and views tell them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/io/identity.h"
#include "core/wire/run_token.h"
#include "transport/tls/key_pair.h"
#include "transport/tls/peer_certificates.h"

namespace lockstep::transport::tls {

using Secret = wire::RunToken::Secret;
using Secrets = std::map<io::TokenId, Secret>;

// Files in PEM; the user keeps them.
struct CertificateFiles {
  std::string certificate;      // of this machine; certificates between it and the authority may follow
  std::string private_key;      // of this machine, without a passphrase
  std::string authority;        // certificates of the authorities that sign members and coordinator
  std::string revocation_list;  // of these authorities; empty: none

  [[nodiscard]] bool empty() const {
    return certificate.empty() && private_key.empty() && authority.empty() && revocation_list.empty();
  }
};

// The name of what a certificate grants, where tokens have a random id.
inline constexpr io::TokenId kByCertificate{1};

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

  enum class Of : std::uint8_t { kPeer, kCoordinator };
  // By certificates. `hosts`: a peer accepts the certificate of a coordinator for one of these names or IP addresses.
  // Errors name the file.
  static Result<Credentials> from(const CertificateFiles& files, Of whom, std::vector<std::string> hosts = {});

  [[nodiscard]] SSL_CTX* context() const { return context_.get(); }
  [[nodiscard]] const io::KeyDigest& digest() const { return digest_; }
  [[nodiscard]] std::uint64_t rekey_bytes() const { return rekey_bytes_; }

  // ---- of a dialler ----

  // The only key that a stream to the coordinator may show; nullopt: any, or that of a certificate.
  [[nodiscard]] const std::optional<io::KeyDigest>& coordinator_key() const { return coordinator_key_; }
  struct Token {
    io::TokenId id;
    Secret secret{};
  };
  [[nodiscard]] const Token& token() const { return token_; }

  // ---- of a coordinator ----

  // Whether diallers say who they are.
  [[nodiscard]] bool asks_for_proof() const { return secrets_.has_value(); }
  // The tokens that can be proved from now on.
  void set_secrets(Secrets secrets) { secrets_ = std::move(secrets); }
  // Null: not one of ours.
  [[nodiscard]] const Secret* secret_of(io::TokenId id) const;

  // ---- by certificates ----

  // Whether the authority has signed the other side of a stream to the coordinator.
  [[nodiscard]] bool demands_certificates() const { return demands_certificates_; }
  // Accepted sessions note there which certificates they were shown. Null if no session notes any.
  void set_peer_certificates(std::shared_ptr<PeerCertificates> noted) { peer_certificates_ = std::move(noted); }
  [[nodiscard]] PeerCertificates* peer_certificates() const { return peer_certificates_.get(); }
  // Whether a coordinator may have this certificate.
  [[nodiscard]] bool is_for_coordinator(X509* certificate) const;

 private:
  Credentials(ContextPtr context, const io::KeyDigest& digest, std::uint64_t rekey_bytes)
      : digest_(digest), rekey_bytes_(rekey_bytes), context_(std::move(context)) {}

  io::KeyDigest digest_;
  std::uint64_t rekey_bytes_;
  ContextPtr context_;
  bool demands_certificates_ = false;
  std::shared_ptr<PeerCertificates> peer_certificates_;
  std::vector<std::string> hosts_;
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
