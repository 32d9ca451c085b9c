#include "transport/token_access.h"

#include <fmt/core.h>

#include <algorithm>

#include "transport/address.h"
#include "transport/clock.h"
#include "transport/driver_mutant.h"
#include "transport/own_address.h"
#include "transport/token_file.h"
#include "transport/utc_time.h"
#include "transport/whole_file.h"

namespace lockstep::transport {
namespace {

Result<TokenFile> new_file() {
  const tls::KeyPair keys = tls::KeyPair::generate();
  TokenFile file;
  file.private_key = keys.pem();
  file.key_digest = keys.digest();
  TokenRecord first = random_token();
  first.name = "first";
  if (auto error = add_token(file, std::move(first))) return *error;
  return file;
}

}  // namespace

Result<std::unique_ptr<TokenAccess>> TokenAccess::open(std::string path, std::vector<std::string> advertised) {
  std::unique_ptr<TokenAccess> access(new TokenAccess(std::move(path), std::move(advertised)));
  const std::string& name = access->path_;
  if (!name.empty()) {
    if (auto error = create_token_file(name, new_file)) return *error;
    auto hold = TokenFileHold::take(name);
    if (!hold) return hold.error();
    access->hold_ = std::move(*hold);
  }
  // Read under the hold: the coordinator before this one may have changed the file until it let go.
  Result<TokenFile> file = name.empty() ? new_file() : load_token_file(name);
  if (!file) return file.error();
  access->file_ = std::move(*file);
  access->change_ = change_of(name);
  Result<tls::KeyPair> keys = tls::KeyPair::from_pem(access->file_.private_key);
  if (!keys) return Error{keys.error().status, fmt::format("{}: {}", name, keys.error().text)};
  if (keys->digest() != access->file_.key_digest) {
    return Error{Status::kInvalidArgument,
                 fmt::format("{}: key_digest is not that of private_key; remove the file to make a new key", name)};
  }
  if (auto error = access->validate()) return *error;
  access->credentials_ = std::make_shared<tls::Credentials>(std::move(*keys), access->secrets());
  return access;
}

coordinator::ChangeGrants TokenAccess::grants() const {
  coordinator::ChangeGrants change;
  const std::int64_t today = utc_now();
  for (const TokenRecord& token : file_.tokens) {
    if (state_of(token, today) == TokenState::kRevoked && !planted(DriverMutant::kRevokedStays)) continue;
    const Instant expires = token.expires == 0 ? kNever : now() + seconds(token.expires - today);
    change.grants.push_back({token.id, token.role, expires, token.max_peers, token.single_use, token.used, token.name});
  }
  return change;
}

std::optional<Error> TokenAccess::validate() const {
  const std::string flaw = coordinator::validate_grants(grants().grants);
  if (flaw.empty()) return std::nullopt;
  return Error{Status::kInvalidArgument, fmt::format("{}: {}: revoke tokens that nobody needs", path_, flaw)};
}

// A revoked token is proved as before: so core knows its name, and can say why it refuses it.
tls::Secrets TokenAccess::secrets() const {
  tls::Secrets secrets;
  for (const TokenRecord& token : file_.tokens) secrets[token.id] = token.secret;
  return secrets;
}

std::optional<Error> TokenAccess::listens_on(const io::Address& bound) {
  for (const std::string& host : advertised_) {
    const bool has_port = parse_destination(host).ok();
    addresses_.push_back(has_port ? host : fmt::format("{}:{}", host, bound.port));
  }
  if (addresses_.empty()) {
    for (const io::Address& address : reachable_at(bound)) addresses_.push_back(address.text());
  }
  if (auto error = validate_token_addresses(addresses_)) return error;
  if (path_.empty()) return std::nullopt;
  auto error = change_token_file(path_, [&](TokenFile& file) -> std::optional<Error> {
    file.addresses = addresses_;
    return std::nullopt;
  });
  change_ = change_of(path_);
  return error;
}

std::string TokenAccess::token() const {
  const std::int64_t today = utc_now();
  const auto first = std::ranges::find_if(file_.tokens, [&](const TokenRecord& token) {
    const bool is_for_all = token.role == io::Role::kMember && !token.single_use && token.max_peers == 0;
    return is_for_all && state_of(token, today) == TokenState::kValid;
  });
  return first == file_.tokens.end() ? std::string() : wire::text_of(run_token(file_, *first, addresses_));
}

std::optional<Error> TokenAccess::used(io::TokenId token) {
  if (path_.empty()) return std::nullopt;
  used_.insert(token);
  return keep_used();
}

// Never waits for another process, which may stand still with the lock. reload() then reads what this has written.
std::optional<Error> TokenAccess::keep_used() {
  if (used_.empty()) return std::nullopt;
  auto error = try_change_token_file(path_, [&](TokenFile& file) -> std::optional<Error> {
    for (const io::TokenId token : used_) use_token(file, token);
    return std::nullopt;
  });
  if (!error) used_.clear();
  return error;
}

Result<bool> TokenAccess::reload() {
  if (path_.empty()) return false;
  const std::uint64_t change = change_of(path_);
  if (change == change_) return false;
  change_ = change;
  Result<TokenFile> file = load_token_file(path_);
  if (!file) return file.error();
  if (file->key_digest != file_.key_digest) {
    return Error{Status::kInvalidArgument,
                 path_ + " has another key: restart the coordinator to use it; its tokens are not used"};
  }
  std::swap(file_, *file);
  if (auto error = validate()) {
    std::swap(file_, *file);
    return *error;
  }
  credentials_->set_secrets(secrets());
  return true;
}

}  // namespace lockstep::transport
