#include "transport/certificate_access.h"

#include <fmt/core.h>

#include <string>

#include "transport/tls/revocation_lists.h"
#include "transport/utc_time.h"
#include "transport/whole_file.h"

namespace lockstep::transport {

Result<std::unique_ptr<CertificateAccess>> CertificateAccess::open(tls::CertificateFiles files) {
  std::unique_ptr<CertificateAccess> access(new CertificateAccess(std::move(files)));
  if (auto error = access->read()) return *error;
  return access;
}

std::optional<Error> CertificateAccess::read() {
  change_ = change_of_files();
  auto credentials = tls::Credentials::from(files_, tls::Credentials::Of::kCoordinator);
  if (!credentials) return credentials.error();
  credentials_ = std::make_shared<tls::Credentials>(std::move(*credentials));
  credentials_->set_peer_certificates(peers_);
  return std::nullopt;
}

// A number that changes with any of the files.
std::uint64_t CertificateAccess::change_of_files() const {
  std::uint64_t sum = 0;
  for (const std::string* const file :
       {&files_.certificate, &files_.private_key, &files_.authority, &files_.revocation_list}) {
    if (!file->empty()) sum = sum * 31 + change_of(*file);
  }
  return sum;
}

coordinator::ChangeGrants CertificateAccess::grants() const {
  coordinator::ChangeGrants change{{{.id = tls::kByCertificate, .name = "certificate"}}};
  for (const tls::BadCertificate& bad : bad_) change.barred.push_back({bad.key, bad.why});
  return change;
}

std::string CertificateAccess::complaint() const {
  if (files_.revocation_list.empty()) return {};
  const std::string fault = tls::first_old_list(credentials_->context(), utc_now());
  if (fault.empty()) return {};
  return fmt::format(
      "{}: no peer of this authority can join, and its members stay. Put a new list into {}, which is read at once: no "
      "restart, and no signal",
      fault, files_.revocation_list);
}

Result<bool> CertificateAccess::reload() {
  const bool is_read = change_of_files() != change_;
  if (is_read) {
    if (auto error = read()) return *error;
  }
  auto bad = peers_->check(credentials_->context(), utc_now());
  const bool is_new = bad != bad_;
  bad_ = std::move(bad);
  return is_read || is_new;
}

}  // namespace lockstep::transport
