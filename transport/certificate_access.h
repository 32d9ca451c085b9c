// A coordinator that peers reach by certificates of the user's own authority: its files, and what changes with them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "transport/access.h"
#include "transport/tls/peer_certificates.h"

namespace lockstep::transport {

class CertificateAccess final : public Access {
 public:
  static Result<std::unique_ptr<CertificateAccess>> open(tls::CertificateFiles files);

  [[nodiscard]] Security security() const override { return {credentials_, false}; }
  // Each certificate of the authority is for a member, until it is revoked or ends.
  [[nodiscard]] coordinator::ChangeGrants grants() const override;
  [[nodiscard]] bool has_files() const override { return true; }
  Result<bool> reload() override;
  [[nodiscard]] std::string complaint() const override;

 private:
  explicit CertificateAccess(tls::CertificateFiles files) : Access(false), files_(std::move(files)) {}
  [[nodiscard]] std::optional<Error> read();
  [[nodiscard]] std::uint64_t change_of_files() const;

  tls::CertificateFiles files_;
  std::uint64_t change_ = 0;  // of the files, when they were read
  std::shared_ptr<tls::Credentials> credentials_;
  std::shared_ptr<tls::PeerCertificates> peers_ = std::make_shared<tls::PeerCertificates>();
  std::vector<tls::BadCertificate> bad_;  // of peers_, at the last reload()
};

}  // namespace lockstep::transport
