// Who may reach a coordinator, and by which proof: its key, its run tokens, and what they grant. The tokens come from a
// file, or from nowhere: then there is one token, which ends with the process. Or certificates take their place.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/coordinator/grants.h"
#include "core/io/stream.h"
#include "transport/connector.h"
#include "transport/tls/credentials.h"
#include "transport/tokens.h"

namespace lockstep::transport {

struct AccessOptions {
  std::string token_file;                // created if there is none; empty: one token, kept in memory
  std::vector<std::string> advertised;   // "host:port" or "host" in tokens; empty: the addresses that are listened on
  bool insecure = false;                 // no TLS, and everybody may join
  tls::CertificateFiles certificates{};  // instead of tokens: who has one of this authority may join
};

// Not thread-safe.
class Access {
 public:
  // `hosts`: the addresses that the coordinator listens on, or none if it listens on all. Without a token file, a
  // coordinator that listens on loopback addresses only needs no proof: its peers are programs of the same machine.
  static Result<Access> open(AccessOptions options, const std::vector<io::Address>& hosts);

  [[nodiscard]] bool is_secured() const { return credentials_ != nullptr; }
  [[nodiscard]] Security security() const { return {credentials_, options_.insecure}; }
  [[nodiscard]] std::vector<coordinator::Grant> grants() const;

  // Call it once the port is known: keeps the addresses for tokens in the file.
  [[nodiscard]] std::optional<Error> listens_on(const io::Address& bound);
  // The string that peers connect with: the newest token that is valid, for members; empty without TLS, or if there is
  // no such token.
  [[nodiscard]] std::string token() const;

  // Whether files may change while the coordinator runs.
  [[nodiscard]] bool has_files() const { return !options_.token_file.empty() || !options_.certificates.empty(); }
  // Takes over what has changed in the files. True: there is something new: security and grants are others. An
  // unreadable file changes nothing, and is an error once.
  Result<bool> reload();

 private:
  explicit Access(AccessOptions options) : options_(std::move(options)) {}
  [[nodiscard]] bool by_certificates() const { return !options_.certificates.empty(); }
  [[nodiscard]] std::optional<Error> read_certificates();
  [[nodiscard]] std::uint64_t change_of_files() const;
  [[nodiscard]] tls::Secrets secrets() const;
  // Why core cannot have the grants of the file.
  [[nodiscard]] std::optional<Error> validate() const;

  AccessOptions options_;
  TokenFile file_;
  std::uint64_t changes_ = 0;  // of the files, when they were read
  std::shared_ptr<tls::Credentials> credentials_;
  std::vector<std::string> addresses_;  // "host:port", for tokens
};

// An address of this machine by which others may reach it: that of the route to the internet, else a loopback address.
// No packet is sent.
io::Address outward_address(io::Address::Family family);

}  // namespace lockstep::transport
