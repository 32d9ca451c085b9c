// The certificates by which peers have reached a coordinator, for as long as their sessions live. A certificate that
// was good in the handshake may be revoked, or end, while its peer is in the run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/io/identity.h"
#include "transport/tls/openssl.h"

namespace lockstep::transport::tls {

// A certificate that is not valid any more.
struct BadCertificate {
  io::KeyDigest key;
  std::string why;  // "certificate 'CN=a' was revoked"

  bool operator==(const BadCertificate&) const = default;
};

// Not thread-safe.
class PeerCertificates : public std::enable_shared_from_this<PeerCertificates> {
 public:
  static std::shared_ptr<PeerCertificates> create();

  // Notes the certificates of all sessions that this context accepts from now on. The context keeps this object alive.
  void observe(SSL_CTX* context);

  // The bad ones, in the order of their handshakes. Checks a certificate again if it was checked by other authorities
  // and revocation lists than those of `context`, or if its time is over. `now`: seconds since 1970.
  [[nodiscard]] std::vector<BadCertificate> check(SSL_CTX* context, std::int64_t now);

  // Number of sessions.
  [[nodiscard]] std::size_t size() const;

 private:
  struct Shown;
  PeerCertificates() = default;
  static void on_progress(const SSL* session, int where, int result);
  void note(SSL* session);

  std::vector<std::weak_ptr<Shown>> shown_;  // a session owns what it has shown
};

}  // namespace lockstep::transport::tls
