// Certificates in words, for logs and error texts. A certificate comes from outside: the words are short plain text.
#pragma once

#include <string>

#include "transport/tls/openssl.h"

namespace lockstep::transport::tls {

// The name of a subject or of an issuer: "'CN=a,O=Example'".
std::string words_of(const X509_NAME* name);
std::string subject_of(const X509* certificate);

// Subject and the front of the fingerprint, as `openssl x509 -noout -subject -fingerprint -sha256` shows it:
// "'CN=a' (SHA-256 AB:CD:...)". At most kMaxIdentityBytes with "certificate " before it.
std::string words_of(const X509* certificate);

// "2026-03-01T12:00:00Z"; "an unknown time" if it is none.
std::string words_of(const ASN1_TIME* time);

}  // namespace lockstep::transport::tls
