// A certificate authority of a test: signs keys and revokes certificates, as an administrator would with `openssl`.
#pragma once

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <string>

#include "core/base/assert.h"
#include "core/base/time.h"
#include "tests/transport/temporary_folder.h"
#include "transport/tls/credentials.h"
#include "transport/tls/openssl.h"

namespace lockstep::transport {

class Authority {
 public:
  // Keeps its files in this folder, which must outlive it.
  Authority(const TemporaryFolder& folder, std::string name) : folder_(folder), name_(std::move(name)) {
    certificate_ = certificate(key_.get(), name_, "critical,CA:TRUE", {});
    write(name_ + ".pem", [&](std::FILE* file) { return PEM_write_X509(file, certificate_.get()); });
  }

  // The files of one member. `host`: what its certificate names, such as "IP:127.0.0.1" or "DNS:a.example".
  tls::CertificateFiles sign(const std::string& member, const std::string& host, Duration valid = seconds(3600)) {
    const tls::PrivateKeyPtr key = new_key();
    const tls::CertificatePtr signed_one = certificate(key.get(), member, "critical,CA:FALSE", host, valid);
    const std::string stem = name_ + "-" + member;
    write(stem + ".pem", [&](std::FILE* file) { return PEM_write_X509(file, signed_one.get()); });
    write(stem + ".key", [&](std::FILE* file) {
      return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
    ::chmod((folder_ / (stem + ".key")).c_str(), 0600);
    return {folder_ / (stem + ".pem"), folder_ / (stem + ".key"), folder_ / (name_ + ".pem"), {}};
  }

  // Writes a list of revoked certificates: of those signed so far, the last `count`. Returns its path. `begins`: days
  // from today on which its one day begins.
  std::string revoke_last(int count, int begins = 0) {
    X509_CRL* const list = X509_CRL_new();
    ASN1_TIME* const time = X509_time_adj_ex(nullptr, begins, 0, nullptr);
    X509_CRL_set_version(list, 1);
    X509_CRL_set_issuer_name(list, X509_get_subject_name(certificate_.get()));
    X509_CRL_set1_lastUpdate(list, time);
    X509_time_adj_ex(time, begins + 1, 0, nullptr);
    X509_CRL_set1_nextUpdate(list, time);
    for (int i = 0; i < count; ++i) {
      X509_REVOKED* const one = X509_REVOKED_new();
      ASN1_INTEGER* const serial = ASN1_INTEGER_new();
      ASN1_INTEGER_set(serial, serial_ - i);
      X509_REVOKED_set_serialNumber(one, serial);
      ASN1_INTEGER_free(serial);
      X509_REVOKED_set_revocationDate(one, time);
      X509_CRL_add0_revoked(list, one);
    }
    ASN1_TIME_free(time);
    X509_CRL_sort(list);
    X509_CRL_sign(list, key_.get(), EVP_sha256());
    write(name_ + ".crl", [&](std::FILE* file) { return PEM_write_X509_CRL(file, list); });
    X509_CRL_free(list);
    return folder_ / (name_ + ".crl");
  }

 private:
  static tls::PrivateKeyPtr new_key() {
    tls::begin_openssl();
    return tls::PrivateKeyPtr(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
  }

  tls::CertificatePtr certificate(EVP_PKEY* key, const std::string& name, const char* constraints,
                                  const std::string& host, Duration valid = seconds(3600)) {
    tls::CertificatePtr made(X509_new());
    X509* const x = made.get();
    X509_set_version(x, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(x), 0);
    X509_gmtime_adj(X509_getm_notAfter(x), valid.ns / 1'000'000'000);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(x, certificate_ ? X509_get_subject_name(certificate_.get()) : X509_get_subject_name(x));
    X509_set_pubkey(x, key);
    extend(x, NID_basic_constraints, constraints);
    if (!host.empty()) extend(x, NID_subject_alt_name, host.c_str());
    LOCKSTEP_ASSERT(X509_sign(x, key_.get(), EVP_sha256()) > 0);
    return made;
  }

  static void extend(X509* certificate, int what, const char* value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, what, value);
    LOCKSTEP_ASSERT(extension != nullptr);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }

  template <typename Write>
  void write(const std::string& name, Write pem) const {
    std::FILE* const file = std::fopen((folder_ / name).c_str(), "w");
    LOCKSTEP_ASSERT(file != nullptr && pem(file) == 1);
    std::fclose(file);
  }

  const TemporaryFolder& folder_;
  const std::string name_;
  const tls::PrivateKeyPtr key_ = new_key();
  long serial_ = 0;  // NOLINT(google-runtime-int): OpenSSL's type
  tls::CertificatePtr certificate_;
};

}  // namespace lockstep::transport
