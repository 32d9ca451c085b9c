#include "transport/access.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "transport/address.h"
#include "transport/clock.h"
#include "transport/driver_mutant.h"
#include "transport/token_file.h"
#include "transport/utc_time.h"

namespace lockstep::transport {
namespace {

// A number that changes with the file; 0: there is no such file.
std::uint64_t change_of(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return 0;
  const auto number = [](auto value) { return static_cast<std::uint64_t>(value); };
  return number(found.st_mtim.tv_sec) * 1'000'000'000 + number(found.st_mtim.tv_nsec) + number(found.st_ino);
}

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

bool is_of_this_machine_only(const std::vector<io::Address>& hosts) {
  return !hosts.empty() && std::ranges::all_of(hosts, is_loopback);
}

// By which other machines reach a coordinator that listens here.
std::vector<io::Address> reachable_at(const io::Address& bound) {
  if (!is_every_address(bound)) return {bound};
  std::vector<io::Address> own = {outward_address(io::Address::Family::kV4)};
  const io::Address v6 = outward_address(io::Address::Family::kV6);
  if (bound.family == io::Address::Family::kV6 && !is_loopback(v6)) own.push_back(v6);
  for (io::Address& address : own) address.port = bound.port;
  return own;
}

}  // namespace

Result<Access> Access::open(AccessOptions options, const std::vector<io::Address>& hosts) {
  Access access(std::move(options));
  const AccessOptions& given = access.options_;
  if (given.insecure) {
    if (given.token_file.empty() && given.advertised.empty() && given.certificates.empty()) return access;
    return Error{Status::kInvalidArgument,
                 "insecure: without TLS there are no run tokens and no certificates; leave one of both out"};
  }
  if (access.by_certificates()) {
    if (!given.token_file.empty()) {
      return Error{Status::kInvalidArgument, "certificates and a token file: use one of both"};
    }
    if (auto error = access.read_certificates()) return *error;
    return access;
  }
  if (given.token_file.empty() && is_of_this_machine_only(hosts)) return access;
  Result<TokenFile> file =
      given.token_file.empty() ? new_file() : load_or_create_token_file(given.token_file, new_file);
  if (!file) return file.error();
  access.file_ = std::move(*file);
  access.changes_ = access.change_of_files();
  Result<tls::KeyPair> keys = tls::KeyPair::from_pem(access.file_.private_key);
  if (!keys) return Error{keys.error().status, fmt::format("{}: {}", given.token_file, keys.error().text)};
  if (keys->digest() != access.file_.key_digest) {
    return Error{
        Status::kInvalidArgument,
        fmt::format("{}: key_digest is not that of private_key; remove the file to make a new key", given.token_file)};
  }
  if (auto error = access.validate()) return *error;
  access.credentials_ = std::make_shared<tls::Credentials>(std::move(*keys), access.secrets());
  return access;
}

std::optional<Error> Access::read_certificates() {
  changes_ = change_of_files();
  auto credentials = tls::Credentials::from(options_.certificates, tls::Credentials::Of::kCoordinator);
  if (!credentials) return credentials.error();
  credentials_ = std::make_shared<tls::Credentials>(std::move(*credentials));
  return std::nullopt;
}

// A number that changes with any of the files.
std::uint64_t Access::change_of_files() const {
  const tls::CertificateFiles& files = options_.certificates;
  std::uint64_t sum = 0;
  for (const std::string* const file :
       {&options_.token_file, &files.certificate, &files.private_key, &files.authority, &files.revocation_list}) {
    if (!file->empty()) sum = sum * 31 + change_of(*file);
  }
  return sum;
}

std::vector<coordinator::Grant> Access::grants() const {
  if (by_certificates()) {
    coordinator::Grant by_certificate;
    by_certificate.id = tls::kByCertificate;
    by_certificate.name = "certificate";
    return {by_certificate};
  }
  std::vector<coordinator::Grant> grants;
  const std::int64_t today = utc_now();
  for (const TokenRecord& token : file_.tokens) {
    if (state_of(token, today) == TokenState::kRevoked && !planted(DriverMutant::kRevokedStays)) continue;
    const Instant expires = token.expires == 0 ? kNever : now() + seconds(token.expires - today);
    grants.push_back({token.id, token.role, expires, token.max_peers, token.single_use, token.name});
  }
  return grants;
}

std::optional<Error> Access::validate() const {
  const std::string flaw = coordinator::validate_grants(grants());
  if (flaw.empty()) return std::nullopt;
  return Error{Status::kInvalidArgument,
               fmt::format("{}: {}: revoke tokens that nobody needs", options_.token_file, flaw)};
}

// A revoked token is proved as before: so core knows its name, and can say why it refuses it.
tls::Secrets Access::secrets() const {
  tls::Secrets secrets;
  for (const TokenRecord& token : file_.tokens) secrets[token.id] = token.secret;
  return secrets;
}

std::optional<Error> Access::listens_on(const io::Address& bound) {
  if (!is_secured() || by_certificates()) return std::nullopt;
  for (const std::string& host : options_.advertised) {
    const bool has_port = parse_destination(host).ok();
    addresses_.push_back(has_port ? host : fmt::format("{}:{}", host, bound.port));
  }
  if (addresses_.empty()) {
    for (const io::Address& address : reachable_at(bound)) addresses_.push_back(address.text());
  }
  if (auto error = validate_token_addresses(addresses_)) return error;
  if (options_.token_file.empty()) return std::nullopt;
  auto error = change_token_file(options_.token_file, [&](TokenFile& file) -> std::optional<Error> {
    file.addresses = addresses_;
    return std::nullopt;
  });
  changes_ = change_of_files();
  return error;
}

std::string Access::token() const {
  if (!is_secured() || by_certificates()) return {};
  const std::int64_t today = utc_now();
  const auto newest = std::ranges::find_if(file_.tokens.rbegin(), file_.tokens.rend(), [&](const TokenRecord& token) {
    return token.role == io::Role::kMember && state_of(token, today) == TokenState::kValid;
  });
  return newest == file_.tokens.rend() ? std::string() : wire::text_of(run_token(file_, *newest, addresses_));
}

Result<bool> Access::reload() {
  if (!is_secured() || !has_files()) return false;
  const std::uint64_t changed = change_of_files();
  if (changed == changes_) return false;
  changes_ = changed;
  if (by_certificates()) {
    if (auto error = read_certificates()) return *error;
    return true;
  }
  Result<TokenFile> file = load_token_file(options_.token_file);
  if (!file) return file.error();
  if (file->key_digest != file_.key_digest) {
    return Error{Status::kInvalidArgument,
                 options_.token_file + " has another key: restart the coordinator to use it; its tokens are not used"};
  }
  std::swap(file_, *file);
  if (auto error = validate()) {
    std::swap(file_, *file);
    return *error;
  }
  credentials_->set_secrets(secrets());
  return true;
}

io::Address outward_address(io::Address::Family family) {
  // addresses for documentation (RFC 5737, RFC 3849): only the route to them counts
  io::Address far;
  far.family = family;
  far.port = 9;
  io::Address own = loopback_of(family);
  if (family == io::Address::Family::kV4) {
    far.bytes = {192, 0, 2, 1};
  } else {
    far.bytes = {0x20, 0x01, 0x0d, 0xb8};
  }
  const auto to = to_endpoint(far);
  const int probe = ::socket(to.protocol().family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return own;
  asio::ip::tcp::endpoint from;
  auto size = static_cast<socklen_t>(from.capacity());
  if (::connect(probe, to.data(), static_cast<socklen_t>(to.size())) == 0 &&
      ::getsockname(probe, from.data(), &size) == 0) {
    from.resize(size);
    own = to_address(from);
  }
  ::close(probe);
  return own;
}

}  // namespace lockstep::transport
