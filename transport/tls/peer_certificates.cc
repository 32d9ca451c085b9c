#include "transport/tls/peer_certificates.h"

#include <openssl/asn1.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <utility>

#include "transport/tls/certificate_words.h"
#include "transport/tls/key_pair.h"
#include "transport/tls/revocation_lists.h"

namespace lockstep::transport::tls {
namespace {

using CheckPtr = std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>>;

StorePtr store_of(const SSL_CTX* context) {
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  require(X509_STORE_up_ref(store) == 1);
  return StorePtr(store);
}

// Seconds since 1970.
std::int64_t end_of(const X509* certificate) {
  std::tm time{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &time) != 1) return 0;
  return ::timegm(&time);
}

// Only newcomers pay for a revocation list that is out of date: nobody says that a certificate of a member is bad.
int ignore_old_lists(int good, X509_STORE_CTX* check) {
  return is_fault_of_list(X509_STORE_CTX_get_error(check)) ? 1 : good;
}

}  // namespace

struct PeerCertificates::Shown {
  CertificatePtr certificate;
  CertificatesPtr chain;  // certificates between it and the authority; may be null
  io::KeyDigest key;
  StorePtr checked_by;
  std::int64_t end = 0;  // the next time at which a certificate of the chain ends; seconds since 1970
  std::string fault;     // empty: valid, when it was checked

  [[nodiscard]] std::int64_t end_after(std::int64_t now) const {
    std::int64_t next = std::numeric_limits<std::int64_t>::max();
    const auto take = [&](const X509* one) {
      if (const std::int64_t its = end_of(one); its > now) next = std::min(next, its);
    };
    take(certificate.get());
    for (int i = 0; i < sk_X509_num(chain.get()); ++i) take(sk_X509_value(chain.get(), i));
    return next;
  }

  // Why it is not valid any more; empty: it is.
  [[nodiscard]] std::string check(X509_STORE* store, std::int64_t now) const {
    const CheckPtr check(X509_STORE_CTX_new());
    require(check != nullptr && X509_STORE_CTX_init(check.get(), store, certificate.get(), chain.get()) == 1);
    X509_STORE_CTX_set_default(check.get(), "ssl_client");
    X509_STORE_CTX_set_time(check.get(), 0, now);
    X509_STORE_CTX_set_verify_cb(check.get(), ignore_old_lists);
    if (X509_verify_cert(check.get()) == 1) return {};
    const int error = X509_STORE_CTX_get_error(check.get());
    const std::string name = "certificate " + subject_of(certificate.get()) + " ";
    if (error == X509_V_ERR_CERT_REVOKED) return name + "was revoked";
    if (error == X509_V_ERR_CERT_HAS_EXPIRED) return name + "has expired";
    return name + "is refused: " + X509_verify_cert_error_string(error);
  }
};

std::shared_ptr<const PeerCertificates::Shown> PeerCertificates::note(const SSL* session) {
  auto shown = std::make_shared<Shown>();
  shown->certificate.reset(SSL_get1_peer_certificate(session));
  if (shown->certificate == nullptr) return nullptr;
  if (auto* const chain = SSL_get_peer_cert_chain(session)) shown->chain.reset(X509_chain_up_ref(chain));
  shown->key = digest_of(shown->certificate.get());
  shown->checked_by = store_of(SSL_get_SSL_CTX(session));
  shown->end = shown->end_after(0);
  std::erase_if(shown_, [](const auto& one) { return one.expired(); });
  shown_.push_back(shown);
  return shown;
}

std::vector<BadCertificate> PeerCertificates::check(SSL_CTX* context, std::int64_t now) {
  std::vector<BadCertificate> bad;
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  for (const std::weak_ptr<Shown>& one : shown_) {
    const std::shared_ptr<Shown> shown = one.lock();
    if (shown == nullptr) continue;
    if (shown->checked_by.get() != store || now >= shown->end) {
      shown->fault = shown->check(store, now);
      shown->checked_by = store_of(context);
      shown->end = shown->end_after(now);
    }
    if (!shown->fault.empty()) bad.push_back({shown->key, shown->fault});
  }
  return bad;
}

}  // namespace lockstep::transport::tls
