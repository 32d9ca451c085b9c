#include "transport/tls/openssl.h"

#include <openssl/err.h>

#include <new>
#include <system_error>

namespace lockstep::transport::tls {

void begin_openssl() { require(OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr) == 1); }

std::string take_error() {
  const unsigned long code = ERR_get_error();  // NOLINT(google-runtime-int): OpenSSL's type
  ERR_clear_error();
  if (code == 0) return {};
  if (ERR_SYSTEM_ERROR(code)) return std::generic_category().message(ERR_GET_REASON(code));
  const char* const reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "error " + std::to_string(code);
}

void require(bool done) {
  if (!done) throw std::bad_alloc();
}

}  // namespace lockstep::transport::tls
