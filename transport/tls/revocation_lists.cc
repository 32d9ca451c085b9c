#include "transport/tls/revocation_lists.h"

#include <fmt/core.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <ctime>
#include <vector>

#include "transport/tls/certificate_words.h"

namespace lockstep::transport::tls {
namespace {

std::string is_old(const X509_CRL* list) {
  return fmt::format("the revocation list of {} is out of date since {}", words_of(X509_CRL_get_issuer(list)),
                     words_of(X509_CRL_get0_nextUpdate(list)));
}

std::string is_early(const X509_CRL* list) {
  return fmt::format("the revocation list of {} is valid only from {} on", words_of(X509_CRL_get_issuer(list)),
                     words_of(X509_CRL_get0_lastUpdate(list)));
}

// Empty: it is valid.
std::string fault_of(const X509_CRL* list, std::time_t now) {
  const ASN1_TIME* const next = X509_CRL_get0_nextUpdate(list);
  if (next != nullptr && X509_cmp_time(next, &now) < 0) return is_old(list);
  return X509_cmp_time(X509_CRL_get0_lastUpdate(list), &now) > 0 ? is_early(list) : std::string();
}

}  // namespace

bool is_fault_of_list(int error) {
  return error == X509_V_ERR_UNABLE_TO_GET_CRL || error == X509_V_ERR_CRL_NOT_YET_VALID ||
         error == X509_V_ERR_CRL_HAS_EXPIRED;
}

std::string words_of_list_fault(X509_STORE_CTX* check) {
  const X509_CRL* const list = X509_STORE_CTX_get0_current_crl(check);
  const X509* const certificate = X509_STORE_CTX_get_current_cert(check);
  const int error = X509_STORE_CTX_get_error(check);
  if (list != nullptr && error == X509_V_ERR_CRL_HAS_EXPIRED) return is_old(list);
  if (list != nullptr && error == X509_V_ERR_CRL_NOT_YET_VALID) return is_early(list);
  return "there is no revocation list of " +
         (certificate != nullptr ? words_of(X509_get_issuer_name(certificate)) : std::string("the authority"));
}

std::string first_old_list(const SSL_CTX* context, std::int64_t now) {
  const auto* const objects = X509_STORE_get0_objects(SSL_CTX_get_cert_store(context));
  std::vector<const X509_CRL*> lists;
  for (int i = 0; i < sk_X509_OBJECT_num(objects); ++i) {
    if (const X509_CRL* const list = X509_OBJECT_get0_X509_CRL(sk_X509_OBJECT_value(objects, i))) lists.push_back(list);
  }
  for (const X509_CRL* const list : lists) {
    std::string fault = fault_of(list, now);
    const bool is_replaced = std::ranges::any_of(lists, [&](const X509_CRL* other) {
      return X509_NAME_cmp(X509_CRL_get_issuer(other), X509_CRL_get_issuer(list)) == 0 && fault_of(other, now).empty();
    });
    if (!fault.empty() && !is_replaced) return fault;
  }
  return {};
}

}  // namespace lockstep::transport::tls
