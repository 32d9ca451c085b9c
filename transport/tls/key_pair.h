// The key by which a process is known to others: Ed25519 (RFC 8032), with a certificate that the key signs itself.
// Others know the key by its digest; names and dates of the certificate mean nothing.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/io/identity.h"
#include "transport/tls/openssl.h"

namespace lockstep::transport::tls {

class KeyPair {
 public:
  // A new key from the system's entropy. Throws std::bad_alloc.
  static KeyPair generate();
  // The private key in PEM (PKCS #8). The error never repeats the text.
  static Result<KeyPair> from_pem(std::string_view pem);
  // A secret: write it only to a file that others cannot read.
  [[nodiscard]] std::string pem() const;

  [[nodiscard]] const io::KeyDigest& digest() const { return digest_; }
  [[nodiscard]] EVP_PKEY* key() const { return key_.get(); }
  [[nodiscard]] X509* certificate() const { return certificate_.get(); }

 private:
  explicit KeyPair(PrivateKeyPtr key);

  PrivateKeyPtr key_;
  CertificatePtr certificate_;
  io::KeyDigest digest_;
};

// SHA-256 of the certificate's SubjectPublicKeyInfo.
io::KeyDigest digest_of(X509* certificate);

}  // namespace lockstep::transport::tls
