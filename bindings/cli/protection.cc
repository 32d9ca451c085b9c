#include "bindings/cli/protection.h"

#include <CLI/CLI.hpp>

namespace lockstep::cli {

void add_certificates(CLI::App& command, transport::tls::CertificateFiles& files) {
  CLI::Option* const certificate =
      command.add_option("--certificate", files.certificate, "FILE (PEM): instead of run tokens; peers have one, too");
  CLI::Option* const key = command.add_option("--private-key", files.private_key, "FILE (PEM) of the certificate");
  CLI::Option* const authority =
      command.add_option("--authority", files.authority, "FILE (PEM) of the authorities that both sides trust");
  CLI::Option* const revoked =
      command.add_option("--revocation-list", files.revocation_list, "FILE (PEM) of these authorities");
  certificate->needs(key);
  certificate->needs(authority);
  key->needs(certificate);
  authority->needs(certificate);
  revoked->needs(certificate);
}

void add_protection(CLI::App& command, transport::Protection& protection) {
  add_certificates(command, protection.certificates);
  command.add_flag("--insecure", protection.insecure,
                   "with HOST:PORT, streams to other machines are not encrypted: only for a network that is trusted");
}

lockstep_certificates c_certificates(const transport::tls::CertificateFiles& files) {
  return {files.certificate.c_str(), files.private_key.c_str(), files.authority.c_str(),
          files.revocation_list.empty() ? nullptr : files.revocation_list.c_str()};
}

}  // namespace lockstep::cli
