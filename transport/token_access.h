// A coordinator that peers reach by run tokens: its key, its tokens, and what they grant. The tokens come from a file,
// or from nowhere: then there is one token, which ends with the process.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "transport/access.h"
#include "transport/token_file_hold.h"
#include "transport/tokens.h"

namespace lockstep::transport {

class TokenAccess final : public Access {
 public:
  static Result<std::unique_ptr<TokenAccess>> open(std::string path, std::vector<std::string> advertised);

  [[nodiscard]] Security security() const override { return {credentials_, false}; }
  [[nodiscard]] coordinator::ChangeGrants grants() const override;
  // Keeps the addresses for tokens in the file.
  [[nodiscard]] std::optional<Error> listens_on(const io::Address& bound) override;
  // The newest token that is valid, for members; empty if there is no such token.
  [[nodiscard]] std::string token() const override;
  [[nodiscard]] bool has_files() const override { return !path_.empty(); }
  Result<bool> reload() override;
  [[nodiscard]] std::optional<Error> used(io::TokenId token) override;
  [[nodiscard]] std::optional<Error> keep_used() override;

 private:
  TokenAccess(std::string path, std::vector<std::string> advertised)
      : Access(false), path_(std::move(path)), advertised_(std::move(advertised)) {}
  [[nodiscard]] tls::Secrets secrets() const;
  // Why core cannot have the grants of the file.
  [[nodiscard]] std::optional<Error> validate() const;

  std::string path_;  // empty: no file
  std::unique_ptr<TokenFileHold> hold_;
  std::vector<std::string> advertised_;
  TokenFile file_;
  std::uint64_t change_ = 0;  // of the file, when it was read
  std::shared_ptr<tls::Credentials> credentials_;
  std::vector<std::string> addresses_;  // "host:port", for tokens
  std::set<io::TokenId> used_;          // that the file does not show as used yet
};

}  // namespace lockstep::transport
