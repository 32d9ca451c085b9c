// The peers that may reach a coordinator, and the proof of each: run tokens (token_access.h), certificates of an
// authority of the user's own (certificate_access.h), or nothing at all.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/coordinator/coordinator.h"
#include "core/io/stream.h"
#include "transport/connector.h"
#include "transport/tls/credentials.h"

namespace lockstep::transport {

struct AccessOptions {
  std::string token_file;                // created if there is none; empty: one token, kept in memory
  std::vector<std::string> advertised;   // "host:port" or "host" in tokens; empty: the addresses that are listened on
  bool insecure = false;                 // no TLS, and everybody may join
  tls::CertificateFiles certificates{};  // instead of tokens: a peer with one of this authority may join
};

// This class itself asks for no proof. Not thread-safe.
class Access {
 public:
  // `hosts`: the addresses that the coordinator listens on, or none if it listens on all. Without a token file, a
  // coordinator that listens on loopback addresses only needs no proof: its peers are programs of the same machine.
  static Result<std::unique_ptr<Access>> open(AccessOptions options, const std::vector<io::Address>& hosts);

  explicit Access(bool insecure) : insecure_(insecure) {}
  virtual ~Access() = default;
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

  [[nodiscard]] virtual Security security() const { return {nullptr, insecure_}; }
  [[nodiscard]] bool is_secured() const { return security().credentials != nullptr; }
  [[nodiscard]] virtual coordinator::ChangeGrants grants() const { return {}; }

  // Call it once the port is known.
  [[nodiscard]] virtual std::optional<Error> listens_on(const io::Address& /*bound*/) { return std::nullopt; }
  // The string that peers connect with; empty if they need none.
  [[nodiscard]] virtual std::string token() const { return {}; }

  // Whether files may change while the coordinator runs.
  [[nodiscard]] virtual bool has_files() const { return false; }
  // Takes over what has changed, in files or with the time. True: there is something new: security and grants are
  // others. An unreadable file changes nothing, and is an error once.
  virtual Result<bool> reload() { return false; }
  // A fault in files that were read, because of which peers are refused that might join; empty: none. It changes with
  // reload(), and with the time.
  [[nodiscard]] virtual std::string complaint() const { return {}; }
  // A token for one use has admitted its peer. Remembers it in the file, where there is one. May write to the disk. An
  // error: it is not in the file yet; keep_used() tries again.
  [[nodiscard]] virtual std::optional<Error> used(io::TokenId /*token*/) { return std::nullopt; }
  [[nodiscard]] virtual std::optional<Error> keep_used() { return std::nullopt; }

 private:
  bool insecure_;
};

}  // namespace lockstep::transport
