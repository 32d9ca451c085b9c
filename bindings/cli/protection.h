// Options of a command that reaches a coordinator without a run token.
#pragma once

#include "bindings/cli/command.h"
#include "lockstep.h"
#include "transport/destination.h"

namespace lockstep::cli {

void add_certificates(CLI::App& command, transport::tls::CertificateFiles& files);
void add_protection(CLI::App& command, transport::Protection& protection);

// The same for the C API; valid as long as `files`.
lockstep_certificates c_certificates(const transport::tls::CertificateFiles& files);

}  // namespace lockstep::cli
