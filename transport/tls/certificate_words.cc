#include "transport/tls/certificate_words.h"

#include <fmt/core.h>
#include <openssl/asn1.h>
#include <openssl/x509.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string_view>

#include "core/base/text.h"
#include "core/wire/limits.h"
#include "transport/utc_time.h"

namespace lockstep::transport::tls {
namespace {

constexpr std::size_t kMaxNameBytesShown = 100;
constexpr std::size_t kFingerprintBytesShown = 8;
// "certificate ", the name in quotes, " (SHA-256 ", two digits and a colon for each byte, ")"
static_assert(12 + kMaxNameBytesShown + 2 + 10 + 3 * kFingerprintBytesShown <= kMaxIdentityBytes);

}  // namespace

std::string words_of(const X509_NAME* name) {
  const BioPtr out(BIO_new(BIO_s_mem()));
  require(out != nullptr);
  X509_NAME_print_ex(out.get(), name, 0, XN_FLAG_RFC2253);
  char* data = nullptr;
  const auto size = BIO_get_mem_data(out.get(), &data);
  return "'" + plain(cut(std::string_view(data, static_cast<std::size_t>(size)), kMaxNameBytesShown)) + "'";
}

std::string subject_of(const X509* certificate) { return words_of(X509_get_subject_name(certificate)); }

std::string words_of(const X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  require(X509_digest(certificate, EVP_sha256(), digest.data(), &size) == 1 && size >= kFingerprintBytesShown);
  std::string fingerprint;
  for (std::size_t i = 0; i < kFingerprintBytesShown; ++i) {
    fingerprint += fmt::format("{}{:02X}", i == 0 ? "" : ":", digest[i]);
  }
  return fmt::format("{} (SHA-256 {})", subject_of(certificate), fingerprint);
}

std::string words_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return "an unknown time";
  const std::int64_t seconds = ::timegm(&parts);
  return seconds < 0 || seconds > kLatestUtc ? "an unknown time" : utc_text(seconds);
}

}  // namespace lockstep::transport::tls
