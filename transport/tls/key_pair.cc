#include "transport/tls/key_pair.h"

#include <openssl/pem.h>
#include <openssl/sha.h>

#include <cstddef>
#include <utility>

namespace lockstep::transport::tls {
namespace {

// An X.509 certificate needs dates. Nobody looks at them.
constexpr long kSecondsOfTenYears = 10L * 365 * 24 * 3600;  // NOLINT(google-runtime-int): OpenSSL's type

CertificatePtr sign_own(EVP_PKEY* key) {
  CertificatePtr certificate(X509_new());
  require(certificate != nullptr);
  X509* const x = certificate.get();
  X509_NAME* const name = X509_get_subject_name(x);
  require(X509_set_version(x, X509_VERSION_3) == 1 && ASN1_INTEGER_set(X509_get_serialNumber(x), 1) == 1 &&
          X509_gmtime_adj(X509_getm_notBefore(x), 0) != nullptr &&
          X509_gmtime_adj(X509_getm_notAfter(x), kSecondsOfTenYears) != nullptr &&
          X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("lockstep"), -1,
                                     -1, 0) == 1 &&
          X509_set_issuer_name(x, name) == 1 && X509_set_pubkey(x, key) == 1 && X509_sign(x, key, nullptr) > 0);
  return certificate;
}

}  // namespace

KeyPair::KeyPair(PrivateKeyPtr key)
    : key_(std::move(key)), certificate_(sign_own(key_.get())), digest_(digest_of(certificate_.get())) {}

KeyPair KeyPair::generate() {
  begin_openssl();
  PrivateKeyPtr key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  require(key != nullptr);
  return KeyPair(std::move(key));
}

Result<KeyPair> KeyPair::from_pem(std::string_view pem) {
  begin_openssl();
  const BioPtr in(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  require(in != nullptr);
  // the callback answers a question for a passphrase with none, instead of asking on the terminal
  const auto no_passphrase = [](char*, int, int, void*) { return 0; };
  PrivateKeyPtr key(PEM_read_bio_PrivateKey(in.get(), nullptr, no_passphrase, nullptr));
  if (key == nullptr) {
    return Error{Status::kInvalidArgument, "this is no private key in PEM without a passphrase: " + take_error()};
  }
  if (EVP_PKEY_get_id(key.get()) != EVP_PKEY_ED25519) {
    return Error{Status::kInvalidArgument, "the private key is not an Ed25519 key"};
  }
  return KeyPair(std::move(key));
}

std::string KeyPair::pem() const {
  const BioPtr out(BIO_new(BIO_s_secmem()));
  require(out != nullptr &&
          PEM_write_bio_PrivateKey(out.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  char* data = nullptr;
  const auto size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

io::KeyDigest digest_of(X509* certificate) {
  unsigned char* encoded = nullptr;
  const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &encoded);
  require(size > 0);
  io::KeyDigest digest;
  SHA256(encoded, static_cast<std::size_t>(size), digest.bytes.data());
  OPENSSL_free(encoded);
  return digest;
}

}  // namespace lockstep::transport::tls
