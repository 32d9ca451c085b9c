// Revocation lists that are of no use: out of date, not valid yet, or missing. That is a fault of the side that has the
// list, and says nothing about the certificate that is checked.
#pragma once

#include <cstdint>
#include <string>

#include "transport/tls/openssl.h"

namespace lockstep::transport::tls {

// Whether this error of a check (X509_V_ERR_...) is such a fault.
bool is_fault_of_list(int error);
// The fault that the check has met now, with the name of the authority and the date.
std::string words_of_list_fault(X509_STORE_CTX* check);

// The first list of the store that is not valid at this time (seconds since 1970) and that no other list of the same
// authority replaces, in words; empty: there is none.
std::string first_old_list(const SSL_CTX* context, std::int64_t now);

}  // namespace lockstep::transport::tls
