// Validates the option structs of the C API and converts them to the transport's options.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.h"
#include "lockstep.h"
#include "transport/communicator.h"

namespace lockstep::c {

Result<transport::CommunicatorOptions> communicator_options(const lockstep_comm_options* options);

// None if `certificates` is null. An error if a file is missing that both sides need.
Result<transport::tls::CertificateFiles> certificate_files(const lockstep_certificates* certificates);

// The name of a peer whose program gives none: host and process, such as "node7[4123]".
std::string default_name();

// Calls the program's function; empty if there is none.
transport::Log log_to(lockstep_log_fn log, void* user);

// Replaces a default if the field is not 0; the field is in milliseconds.
void override_with(std::uint32_t ms, Duration& value);

}  // namespace lockstep::c
