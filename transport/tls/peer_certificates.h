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
class PeerCertificates {
 public:
  struct Shown;
  // Notes what the other side of a session has shown in the handshake, for as long as the result lives. Null: nothing.
  [[nodiscard]] std::shared_ptr<const Shown> note(const SSL* session);

  // The bad ones, in the order of their handshakes. Checks a certificate again if it was checked by other authorities
  // and revocation lists than those of `context`, or if its time is over. `now`: seconds since 1970.
  [[nodiscard]] std::vector<BadCertificate> check(SSL_CTX* context, std::int64_t now);

 private:
  std::vector<std::weak_ptr<Shown>> shown_;
};

}  // namespace lockstep::transport::tls
