#include "transport/token_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "core/wire/limits.h"
#include "transport/utc_time.h"
#include "transport/whole_file.h"

namespace lockstep::transport {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kTokenFileVersion = 1;
constexpr std::size_t kMaxTokenFileBytes = std::size_t{16} << 20U;

Error invalid_file(std::string text) { return {Status::kInvalidArgument, std::move(text)}; }

// ---- JSON ----

std::string hex_of(std::span<const std::uint8_t> bytes) { return fmt::format("{:02x}", fmt::join(bytes, "")); }

bool is_hex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }

// Takes the fields out of an object. Remembers the first fault: a field that is missing or wrong.
class ObjectFields {
 public:
  // `where`: "" or "token 3: ".
  ObjectFields(Json object, std::string where) : object_(std::move(object)), where_(std::move(where)) {
    if (!object_.is_object()) refuse("it is no object");
  }

  Json take(const char* name) {
    const auto at = object_.is_object() ? object_.find(name) : object_.end();
    if (at == object_.end()) {
      refuse(fmt::format("there is no field \"{}\"", name));
      return {};
    }
    Json value = std::move(*at);
    object_.erase(at);
    return value;
  }
  [[nodiscard]] bool has(const char* name) const { return object_.is_object() && object_.contains(name); }
  std::string text(const char* name) {
    const Json value = take(name);
    if (!value.is_string()) refuse(fmt::format("\"{}\" is no string", name));
    return value.is_string() ? value.get<std::string>() : std::string();
  }
  bool flag(const char* name) {
    const Json value = take(name);
    if (!value.is_boolean()) refuse(fmt::format("\"{}\" is neither true nor false", name));
    return value.is_boolean() && value.get<bool>();
  }
  void hex(const char* name, std::span<std::uint8_t> into) {
    const std::string digits = text(name);
    if (digits.size() != 2 * into.size() || !is_hex(digits)) {
      return refuse(fmt::format("\"{}\" has not {} of the digits 0 to 9 and a to f", name, 2 * into.size()));
    }
    for (std::size_t i = 0; i < into.size(); ++i) {
      std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, into[i], 16);
    }
  }
  void refuse(const std::string& why) {
    if (fault_.empty()) fault_ = where_ + why;
  }
  // The first fault; a field that nobody took is one. Empty: there is none.
  std::string fault() {
    if (object_.is_object() && !object_.empty()) {
      refuse(fmt::format("there is an unknown field \"{}\"", plain(cut(object_.begin().key(), kMaxNameBytes))));
    }
    return fault_;
  }

 private:
  Json object_;
  std::string where_;
  std::string fault_;
};

Json json_of(const TokenRecord& token) {
  return {{"id", wire::name_of(token.id)},
          {"secret", hex_of(token.secret)},
          {"role", role_name(token.role)},
          {"name", token.name},
          {"expires", token.expires == 0 ? Json() : Json(utc_text(token.expires))},
          {"max_peers", token.max_peers == 0 ? Json() : Json(token.max_peers)},
          {"single_use", token.single_use},
          {"used", token.used},
          {"revoked", token.revoked}};
}

std::int64_t expiry_of(ObjectFields& fields) {
  const Json value = fields.take("expires");
  if (value.is_null()) return 0;
  const auto time = value.is_string() ? utc_of(value.get<std::string>()) : std::nullopt;
  if (!time || *time == 0) fields.refuse("\"expires\" is neither null nor a time such as \"2026-12-31T00:00:00Z\"");
  return time.value_or(0);
}

std::uint32_t max_peers_of(ObjectFields& fields) {
  const Json value = fields.take("max_peers");
  if (value.is_null()) return 0;
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() == 0 || value.get<std::uint64_t>() > kMaxMembers) {
    fields.refuse(fmt::format("\"max_peers\" is neither null nor a number from 1 to {}", kMaxMembers));
    return 0;
  }
  return value.get<std::uint32_t>();
}

// Returns the fault; empty: the token is good.
std::string read_token(Json object, std::size_t nth, TokenRecord& token) {
  ObjectFields fields(std::move(object), fmt::format("token {}: ", nth));
  std::array<std::uint8_t, sizeof(std::uint64_t)> id{};
  fields.hex("id", id);
  for (const std::uint8_t byte : id) token.id.value = token.id.value << 8U | byte;
  if (token.id.value == 0) fields.refuse("\"id\" is 0");
  fields.hex("secret", token.secret);
  const auto role = role_of(fields.text("role"));
  if (!role) fields.refuse("\"role\" is none of \"member\", \"observer\" and \"admin\"");
  token.role = role.value_or(io::Role::kMember);
  token.name = fields.text("name");
  if (!is_plain(token.name) || token.name.size() > kMaxNameBytes) {
    fields.refuse(fmt::format("\"name\" is no plain text of at most {} bytes", kMaxNameBytes));
  }
  token.expires = expiry_of(fields);
  token.max_peers = max_peers_of(fields);
  token.single_use = fields.flag("single_use");
  token.used = fields.has("used") && fields.flag("used");
  token.revoked = fields.flag("revoked");
  return fields.fault();
}

std::string read_tokens(const Json& list, std::vector<TokenRecord>& tokens) {
  if (!list.is_array()) return "\"tokens\" is no list";
  if (list.size() > kMaxTokens) return fmt::format("there are {} tokens; at most {}", list.size(), kMaxTokens);
  std::set<io::TokenId> ids;
  for (const Json& each : list) {
    TokenRecord token;
    std::string fault = read_token(each, tokens.size() + 1, token);
    if (!fault.empty()) return fault;
    if (!ids.insert(token.id).second) return fmt::format("two tokens have the id {}", wire::name_of(token.id));
    tokens.push_back(std::move(token));
  }
  return {};
}

std::string read_addresses(const Json& list, std::vector<std::string>& addresses) {
  if (!list.is_array()) return "\"addresses\" is no list";
  for (const Json& each : list) {
    if (!each.is_string()) return "\"addresses\" has an entry that is no string";
    addresses.push_back(each.get<std::string>());
  }
  if (addresses.empty()) return {};
  const auto error = validate_token_addresses(addresses);
  return error ? "\"addresses\": " + error->text : std::string();
}

// The message of the library quotes the text, which has secrets.
Error no_json(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte > 0 ? byte - 1 : 0, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  return invalid_file(fmt::format("it is no JSON: line {}, column {}", line, column));
}

// ---- files ----

Error about(const std::string& path, const std::string& text) {
  return invalid_file(fmt::format("token file {}: {}", plain(path), text));
}

Error cannot(const char* verb, const std::string& path) {
  if (errno != ENOENT) return about(path, fmt::format("it cannot be {}: {}", verb, system_says()));
  return about(path, fmt::format("there is no such file. The coordinator creates it: "
                                 "`lockstep coordinator --tokens {}`",
                                 plain(path)));
}

Result<std::string> read_all(int file) {
  std::string text;
  std::array<char, 65'536> part{};
  for (;;) {
    const ssize_t got = ::read(file, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return invalid_file("it cannot be read: " + system_says());
    if (got == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
    if (text.size() > kMaxTokenFileBytes) return invalid_file("it is too large");
  }
}

Result<TokenFile> load_open(int file, const std::string& path) {
  struct stat what {};
  if (::fstat(file, &what) != 0) return cannot("read", path);
  if (!S_ISREG(what.st_mode)) return about(path, "it is no regular file");
  if ((what.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return about(
        path, fmt::format("others than its owner can read or write it, and it has secrets: chmod 600 {}", plain(path)));
  }
  const auto text = read_all(file);
  if (!text) return about(path, text.error().text);
  auto parsed = parse_token_file(*text);
  if (!parsed) return about(path, parsed.error().text);
  return parsed;
}

enum class Lock : std::uint8_t { kWait, kTry };

bool lock(int file, Lock how) {
  while (::flock(file, how == Lock::kTry ? LOCK_EX | LOCK_NB : LOCK_EX) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

bool is_at(int file, const std::string& path) {
  struct stat open {};
  struct stat there {};
  return ::fstat(file, &open) == 0 && ::stat(path.c_str(), &there) == 0 && open.st_dev == there.st_dev &&
         open.st_ino == there.st_ino;
}

using Change = std::function<std::optional<Error>(TokenFile&)>;

std::optional<Error> change_file(const std::string& path, const Change& change, Lock how) {
  for (;;) {
    const std::string real = behind_links(path);
    const OpenFile file(::open(real.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file.ok()) return cannot("changed", path);
    if (!lock(file.descriptor(), how)) {
      if (errno != EWOULDBLOCK) return cannot("locked", path);
      return Error{Status::kTimedOut, about(path, "another process is changing it").text};
    }
    if (!is_at(file.descriptor(), real)) continue;  // another process has replaced it meanwhile
    auto loaded = load_open(file.descriptor(), path);
    if (!loaded) return loaded.error();
    const TokenFile before = *loaded;
    if (auto refused = change(*loaded)) return refused;
    if (*loaded == before) return std::nullopt;
    const std::string text = text_of(*loaded);
    if (const auto failed = replace_file(real, std::as_bytes(std::span(text)))) {
      return about(path, "it cannot be changed: " + *failed);
    }
    return std::nullopt;
  }
}

}  // namespace

std::string text_of(const TokenFile& file) {
  Json json = {{"version", kTokenFileVersion},
               {"private_key", file.private_key},
               {"key_digest", hex_of(file.key_digest.bytes)},
               {"addresses", file.addresses},
               {"tokens", Json::array()}};
  for (const TokenRecord& token : file.tokens) json["tokens"].push_back(json_of(token));
  return json.dump(2) + "\n";
}

Result<TokenFile> parse_token_file(std::string_view text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    return no_json(text, error.byte);
  } catch (const Json::exception&) {  // a number that no type holds
    return invalid_file("it is no JSON that this release can read");
  }
  ObjectFields fields(std::move(json), "");
  const Json version = fields.take("version");
  if (version.is_number() && version != Json(kTokenFileVersion)) {
    return invalid_file("it was written by a newer release of Lockstep: upgrade this one");
  }
  if (!version.is_number()) fields.refuse("\"version\" is no number");
  TokenFile file;
  file.private_key = fields.text("private_key");
  if (file.private_key.empty()) fields.refuse("\"private_key\" is empty");
  fields.hex("key_digest", file.key_digest.bytes);
  if (file.key_digest.is_none()) fields.refuse("\"key_digest\" is 0");
  const std::string addresses_fault = read_addresses(fields.take("addresses"), file.addresses);
  if (!addresses_fault.empty()) fields.refuse(addresses_fault);
  const std::string tokens_fault = read_tokens(fields.take("tokens"), file.tokens);
  if (!tokens_fault.empty()) fields.refuse(tokens_fault);
  const std::string fault = fields.fault();
  if (!fault.empty()) return invalid_file(fault);
  return file;
}

Result<TokenFile> load_token_file(const std::string& path) {
  // a pipe must not block
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.ok()) return cannot("read", path);
  return load_open(file.descriptor(), path);
}

std::optional<Error> create_token_file(const std::string& path, const std::function<Result<TokenFile>()>& make) {
  if (::access(path.c_str(), F_OK) == 0 || errno != ENOENT) return std::nullopt;
  auto made = make();
  if (!made) return made.error();
  const std::string text = text_of(*made);
  const auto created = create_file(path, std::as_bytes(std::span(text)));
  if (!created) return about(path, "it cannot be created: " + created.error().text);
  return std::nullopt;
}

Result<TokenFile> load_or_create_token_file(const std::string& path, const std::function<Result<TokenFile>()>& make) {
  if (auto error = create_token_file(path, make)) return *error;
  return load_token_file(path);
}

std::optional<Error> change_token_file(const std::string& path, const Change& change) {
  return change_file(path, change, Lock::kWait);
}

std::optional<Error> try_change_token_file(const std::string& path, const Change& change) {
  return change_file(path, change, Lock::kTry);
}

}  // namespace lockstep::transport
