#include "transport/tls/credentials.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>

#include <string_view>
#include <utility>
#include <vector>

#include "transport/tls/session.h"

namespace lockstep::transport::tls {
namespace {

// AES only where the processor has instructions for it: ChaCha20 is faster elsewhere.
bool has_aes_instructions() {
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_cpu_supports("aes") != 0 && __builtin_cpu_supports("pclmul") != 0;
#else
  return true;
#endif
}

// The largest certificate that a stranger may send; ours have about 300 bytes.
constexpr long kMostCertificateBytes = 4096;  // NOLINT(google-runtime-int): OpenSSL's type

// What all contexts have in common.
ContextPtr new_context() {
  begin_openssl();
  ContextPtr context(SSL_CTX_new(TLS_method()));
  require(context != nullptr);
  SSL_CTX* const c = context.get();
  const char* const ciphers = has_aes_instructions() ? "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
                                                     : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";
  require(SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) == 1 &&
          SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION) == 1 && SSL_CTX_set_ciphersuites(c, ciphers) == 1 &&
          SSL_CTX_set1_groups_list(c, "X25519") == 1 && SSL_CTX_set_num_tickets(c, 0) == 1);
  SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                             SSL_OP_PRIORITIZE_CHACHA | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(c, kMostCertificateBytes);
  SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS);  // a stranger who waits costs less
  Session::prepare(c);
  return context;
}

ContextPtr context_of(const KeyPair& keys) {
  ContextPtr context = new_context();
  require(SSL_CTX_set1_sigalgs_list(context.get(), "ed25519") == 1 &&
          SSL_CTX_use_certificate(context.get(), keys.certificate()) == 1 &&
          SSL_CTX_use_PrivateKey(context.get(), keys.key()) == 1);
  return context;
}

Error unusable(const std::string& file, std::string_view what) {
  return {Status::kInvalidArgument,
          "cannot use " + (file.empty() ? "''" : file) + " as " + std::string(what) + ": " + take_error()};
}

bool everybody_reads(const std::string& file) {
  struct stat found {};
  return ::stat(file.c_str(), &found) == 0 && (found.st_mode & S_IRWXO) != 0;
}

bool add_revocations(SSL_CTX* context, const std::string& file) {
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  X509_LOOKUP* const lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());
  return lookup != nullptr && X509_load_crl_file(lookup, file.c_str(), X509_FILETYPE_PEM) > 0 &&
         X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK) == 1;
}

}  // namespace

Credentials::Credentials(KeyPair keys, std::uint64_t rekey_bytes)
    : Credentials(context_of(keys), keys.digest(), rekey_bytes) {}

Result<Credentials> Credentials::from(const CertificateFiles& files, Of whom, std::vector<std::string> hosts) {
  ContextPtr context = new_context();
  SSL_CTX* const c = context.get();
  if (SSL_CTX_use_certificate_chain_file(c, files.certificate.c_str()) != 1) {
    return unusable(files.certificate, "certificate");
  }
  SSL_CTX_set_default_passwd_cb(c, [](char*, int, int, void*) { return 0; });  // never asks on the terminal
  if (everybody_reads(files.private_key)) {
    return Error{Status::kInvalidArgument, "private key " + files.private_key +
                                               ": every user of this machine can read it: chmod o-rwx " +
                                               files.private_key};
  }
  if (SSL_CTX_use_PrivateKey_file(c, files.private_key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return unusable(files.private_key, "private key of " + files.certificate);
  }
  if (SSL_CTX_load_verify_file(c, files.authority.c_str()) != 1) return unusable(files.authority, "authority");
  if (!files.revocation_list.empty() && !add_revocations(c, files.revocation_list)) {
    return unusable(files.revocation_list, "revocation list");
  }
  const io::KeyDigest digest = digest_of(SSL_CTX_get0_certificate(c));
  Credentials result(std::move(context), digest, kRekeyBytes);
  result.demands_certificates_ = true;
  result.hosts_ = std::move(hosts);
  if (whom == Of::kCoordinator) result.secrets_.emplace();
  return result;
}

bool Credentials::is_for_coordinator(X509* certificate) const {
  return std::ranges::any_of(hosts_, [&](const std::string& host) {
    return X509_check_host(certificate, host.c_str(), host.size(), 0, nullptr) == 1 ||
           X509_check_ip_asc(certificate, host.c_str(), 0) == 1;
  });
}

Credentials::Credentials(const wire::RunToken& token, std::uint64_t rekey_bytes)
    : Credentials(KeyPair::generate(), rekey_bytes) {
  coordinator_key_ = token.coordinator_key;
  token_ = {token.id, token.secret};
}

Credentials::Credentials(KeyPair keys, Secrets secrets, std::uint64_t rekey_bytes)
    : Credentials(std::move(keys), rekey_bytes) {
  secrets_ = std::move(secrets);
}

const Secret* Credentials::secret_of(io::TokenId id) const {
  if (!secrets_) return nullptr;
  const auto found = secrets_->find(id);
  return found == secrets_->end() ? nullptr : &found->second;
}

Mac mac_of(const Secret& secret, io::TokenId id, std::span<const std::byte> keying_material) {
  constexpr std::string_view kPurpose = "lockstep run token 1";
  std::vector<unsigned char> message(kPurpose.begin(), kPurpose.end());
  for (unsigned shift = 0; shift < 64; shift += 8) message.push_back(static_cast<unsigned char>(id.value >> shift));
  for (const std::byte byte : keying_material) message.push_back(static_cast<unsigned char>(byte));
  Mac mac{};
  unsigned size = 0;
  require(HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), message.data(), message.size(),
               reinterpret_cast<unsigned char*>(mac.data()), &size) != nullptr &&
          size == mac.size());
  return mac;
}

bool equal(const Mac& a, const Mac& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }
bool equal(const Secret& a, const Secret& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace lockstep::transport::tls
