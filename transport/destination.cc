#include "transport/destination.h"

#include <fmt/core.h>

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/wire/run_token.h"
#include "transport/address.h"
#include "transport/tls/credentials.h"

namespace lockstep::transport {
namespace {

constexpr std::string_view kFilePrefix = "file:";
constexpr std::string_view kVariablePrefix = "env:";

Error bad_coordinator(std::string text) { return {Status::kInvalidArgument, std::move(text)}; }

// Whether a part between dots is longer than that of any host's name: then it may be a part of a run token, which
// neither an error text nor a name server may get.
bool may_be_secret(std::string_view text) {
  constexpr std::size_t kLongestHostLabel = 63;  // RFC 1035, section 2.3.4
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(":./"), text.size());
    if (end > kLongestHostLabel) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

constexpr std::size_t kLongestFirstLine = 4096;

Result<std::string> first_line_of(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return bad_coordinator(fmt::format("cannot read the coordinator from '{}': {}", path,
                                       error ? error.message() : "it is no regular file"));
  }
  std::ifstream file(path);
  std::string line(kLongestFirstLine + 1, '\0');
  file.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<std::size_t>(file.gcount()));
  if (const auto end = line.find('\n'); end != std::string::npos) line.resize(end);
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  if (line.empty() || line.size() > kLongestFirstLine) {
    return bad_coordinator(
        fmt::format("cannot read the coordinator from '{}': its first line must be a run token or host:port", path));
  }
  return line;
}

// Whether others than the owner of the file can read or change what it contains.
bool is_open_to_others(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && (found.st_mode & (S_IRWXG | S_IRWXO)) != 0;
}

Result<Destination> by_token(std::string_view text) {
  const Result<wire::RunToken> token = wire::parse_run_token(text);
  if (!token) return token.error();
  Destination result;
  for (const std::string& address : token->coordinators) {
    result.addresses += (result.addresses.empty() ? "" : ",") + address;
  }
  result.security.credentials = std::make_shared<tls::Credentials>(*token);
  result.token = {token->id, token->role, token->expires};
  return result;
}

Result<Destination> parse(std::string_view text, const Protection& protection) {
  if (text.starts_with(kFilePrefix)) {
    const std::string path(text.substr(kFilePrefix.size()));
    const Result<std::string> line = first_line_of(path);
    if (!line) return line.error();
    if (wire::is_run_token(*line) && is_open_to_others(path)) {
      return bad_coordinator(fmt::format(
          "others than its owner can read or change '{}', and it has a run token, which is a secret: chmod 600 {}",
          path, path));
    }
    if (line->starts_with(kFilePrefix) || line->starts_with(kVariablePrefix)) {
      return bad_coordinator("the file names another file or a variable: write the run token or host:port into it");
    }
    return parse(*line, protection);
  }
  if (text.starts_with(kVariablePrefix)) {
    const std::string name(text.substr(kVariablePrefix.size()));
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') {
      return bad_coordinator(
          fmt::format("the variable {} is not set, or empty: export it with a run token or host:port", name));
    }
    if (std::string_view(value).starts_with(kVariablePrefix)) {
      return bad_coordinator(
          fmt::format("the variable {} names another variable: set it to a token or host:port", name));
    }
    return parse(value, protection);
  }
  if (wire::is_run_token(text)) {
    if (protection.certificates.empty()) return by_token(text);
    return bad_coordinator("a run token and certificates: use one of them; with certificates, connect with host:port");
  }
  std::vector<std::string> hosts;
  for (const std::string& each : split_addresses(text)) {
    const auto parsed = parse_destination(each);
    if (may_be_secret(each)) {
      return bad_coordinator("this is no run token and no host:port: a run token begins with lks1_, and is one piece");
    }
    if (!parsed) return parsed.error();
    hosts.push_back(parsed->host);
  }
  if (protection.certificates.empty()) return Destination{std::string(text), {nullptr, protection.insecure}};
  if (protection.insecure) return bad_coordinator("certificates and insecure: use one of them");
  auto credentials = tls::Credentials::from(protection.certificates, tls::Credentials::Of::kPeer, std::move(hosts));
  if (!credentials) return credentials.error();
  return Destination{std::string(text), {std::make_shared<tls::Credentials>(std::move(*credentials)), false}};
}

}  // namespace

Result<Destination> parse_coordinator(std::string_view text, const Protection& protection) {
  auto result = parse(text, protection);
  if (!result) return Error{result.error().status, wire::redacted(result.error().text)};
  return result;
}

}  // namespace lockstep::transport
