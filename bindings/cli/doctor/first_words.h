// The answer of a program that is no coordinator to a client that speaks HTTP.
#pragma once

#include <string>

#include "core/base/time.h"
#include "core/io/stream.h"

namespace lockstep::cli::doctor {

// Connects, sends a request for a page, and returns the first bytes of the answer; empty: no answer in time. Sends no
// secret.
std::string first_words(const io::Address& address, Duration timeout);

// "an HTTP server", "an SSH server"; "another program, which begins with 'EHLO'".
std::string service_of(const std::string& first_bytes);

}  // namespace lockstep::cli::doctor
