// Any bytes as a certificate that a stranger shows, or as a revocation list (DER): the first byte says which. Its words
// are plain, and not longer than a log, a status and a message of the protocol have room for.
#include <openssl/err.h>
#include <openssl/x509.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "core/base/assert.h"
#include "core/base/text.h"
#include "core/wire/limits.h"
#include "fuzz/door.h"
#include "transport/tls/certificate_words.h"
#include "transport/tls/key_pair.h"
#include "transport/tls/revocation_lists.h"

namespace tls = lockstep::transport::tls;

namespace {

void look_at(const std::string& words, std::size_t most) {
  LOCKSTEP_ASSERT(!words.empty() && words.size() <= most && lockstep::is_plain(words));
}

void look_at_certificate(const unsigned char* bytes, std::size_t size) {
  const tls::CertificatePtr certificate(d2i_X509(nullptr, &bytes, static_cast<long>(size)));  // NOLINT: OpenSSL's type
  if (certificate == nullptr) return;
  look_at("certificate " + tls::words_of(certificate.get()), lockstep::kMaxIdentityBytes);
  look_at(tls::subject_of(certificate.get()), lockstep::kMaxIdentityBytes);
  look_at(tls::words_of(X509_get_issuer_name(certificate.get())), lockstep::kMaxIdentityBytes);
  look_at(tls::words_of(X509_get0_notAfter(certificate.get())), 32);
  LOCKSTEP_ASSERT(!tls::digest_of(certificate.get()).is_none());
}

void look_at_list(const unsigned char* bytes, std::size_t size) {
  X509_CRL* const list = d2i_X509_CRL(nullptr, &bytes, static_cast<long>(size));  // NOLINT: OpenSSL's type
  if (list == nullptr) return;
  const tls::ContextPtr context(SSL_CTX_new(TLS_method()));
  LOCKSTEP_ASSERT(X509_STORE_add_crl(SSL_CTX_get_cert_store(context.get()), list) == 1);
  X509_CRL_free(list);
  for (const std::int64_t now : {std::int64_t{0}, std::int64_t{1'798'675'200}, std::int64_t{253'402'300'799}}) {
    const std::string fault = tls::first_old_list(context.get(), now);
    if (!fault.empty()) look_at(fault, 2 * lockstep::kMaxIdentityBytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  tls::begin_openssl();
  data[0] % 2 == 0 ? look_at_certificate(data + 1, size - 1) : look_at_list(data + 1, size - 1);
  ERR_clear_error();
  return 0;
}
