// `lockstep token`: the run tokens of a coordinator, in its token file. Only `new` prints a secret, and only on stdout.
#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bindings/cli/command.h"
#include "bindings/cli/core_dumps.h"
#include "bindings/cli/expiry.h"
#include "core/wire/limits.h"
#include "core/wire/run_token.h"
#include "sim/cli/usage.h"
#include "transport/token_file.h"
#include "transport/utc_time.h"

namespace lockstep::cli {
namespace {

using transport::TokenFile;
using transport::TokenRecord;

struct TokenOptions {
  std::string file;
  // new
  std::vector<std::string> addresses;
  std::string name;
  std::string role = "member";
  std::string expires;
  const CLI::Option* expires_option = nullptr;
  std::uint32_t peers = 0;  // 0: no limit
  bool once = false;
  // list
  bool json = false;
  // revoke
  std::string which;
};

void change(const std::string& path, const std::function<std::optional<Error>(TokenFile&)>& what) {
  if (const auto error = transport::change_token_file(path, what)) throw Failure(kExitFailed, error->text);
}

// ---- new ----

TokenRecord record_of(const TokenOptions& options) {
  TokenRecord token = transport::random_token();
  token.name = options.name;
  token.role = *transport::role_of(options.role);  // CLI11 has checked it
  token.max_peers = options.peers;
  token.single_use = options.once;
  if (options.expires_option->count() > 0) {  // an empty one, such as that of a variable that is not set, is no "never"
    const auto expires = expiry_of(options.expires, transport::utc_now());
    if (!expires) {
      throw Failure(kExitUsage, fmt::format("--expires '{}' is no time in the future such as 12h, 7d, 4w or {}",
                                            options.expires, "2026-12-31T00:00:00Z"));
    }
    token.expires = *expires;
  }
  return token;
}

int create(const TokenOptions& options) {
  if (!options.addresses.empty()) {
    if (const auto error = transport::validate_token_addresses(options.addresses)) {
      throw Failure(kExitUsage, error->text);
    }
  }
  const TokenRecord token = record_of(options);
  std::string text;
  change(options.file, [&](TokenFile& file) -> std::optional<Error> {
    const auto& addresses = options.addresses.empty() ? file.addresses : options.addresses;
    if (addresses.empty()) {
      return Error{Status::kInvalidArgument,
                   "the token file remembers no address of the coordinator: give one with --address HOST:PORT"};
    }
    text = wire::text_of(transport::run_token(file, token, addresses));
    return transport::add_token(file, token);
  });
  fmt::print("{}\n", text);
  return kExitOk;
}

// ---- list ----

nlohmann::ordered_json json_of(const TokenRecord& token, std::int64_t now) {
  nlohmann::ordered_json json = {{"id", wire::name_of(token.id)},
                                 {"name", token.name},
                                 {"role", transport::role_name(token.role)},
                                 {"expires", nullptr},
                                 {"max_peers", nullptr},
                                 {"single_use", token.single_use},
                                 {"state", transport::name_of(transport::state_of(token, now))}};
  if (token.expires != 0) json["expires"] = transport::utc_text(token.expires);
  if (token.max_peers != 0) json["max_peers"] = token.max_peers;
  return json;
}

std::string peers_text(const TokenRecord& token) {
  if (token.single_use) return "once";
  return token.max_peers == 0 ? "any" : std::to_string(token.max_peers);
}

void print_table(const std::vector<TokenRecord>& tokens, std::int64_t now) {
  constexpr auto kLine = "{:<16}  {:<16}  {:<8}  {:<20}  {:<5}  {}\n";
  fmt::print(kLine, "id", "name", "role", "expires", "peers", "state");
  for (const TokenRecord& token : tokens) {
    fmt::print(kLine, wire::name_of(token.id), token.name.empty() ? "-" : token.name, transport::role_name(token.role),
               token.expires == 0 ? "never" : transport::utc_text(token.expires), peers_text(token),
               transport::name_of(transport::state_of(token, now)));
  }
}

int list(const TokenOptions& options) {
  const auto file = transport::load_token_file(options.file);
  if (!file) throw Failure(kExitFailed, file.error().text);
  const std::int64_t now = transport::utc_now();
  if (options.json) {
    auto json = nlohmann::ordered_json::array();
    for (const TokenRecord& token : file->tokens) json.push_back(json_of(token, now));
    fmt::print("{}\n", json.dump(2));
  } else if (file->tokens.empty()) {
    fmt::print("there are no tokens; to make one: lockstep token new --tokens {}\n", options.file);
  } else {
    print_table(file->tokens, now);
  }
  return kExitOk;
}

// ---- revoke ----

int revoke(const TokenOptions& options) {
  TokenRecord revoked;
  change(options.file, [&](TokenFile& file) -> std::optional<Error> {
    const auto token = transport::revoke_token(file, options.which);
    if (!token) return token.error();
    revoked = *token;
    return std::nullopt;
  });
  fmt::print("token {}{} is revoked\n", wire::name_of(revoked.id),
             revoked.name.empty() ? "" : " (" + revoked.name + ")");
  return kExitOk;
}

// ---- declarations ----

CLI::App* subcommand(CLI::App& app, const std::string& name, const std::string& what, TokenOptions& options) {
  CLI::App* const command = app.add_subcommand(name, what);
  command->add_option("--tokens", options.file, "FILE of the coordinator")->required()->check(sim::file_name());
  return command;
}

void add_new(CLI::App& app, TokenOptions& options) {
  CLI::App* const command = subcommand(app, "new", "makes a token and prints it", options);
  command
      ->add_option("-a,--address", options.addresses,
                   "HOST:PORT of the coordinator as peers reach it; up to 8 times; default: those that the coordinator "
                   "has written into the file")
      ->allow_extra_args(false);
  command->add_option("-n,--name", options.name, "for people; tokens that are not revoked have different names");
  command
      ->add_option("-r,--role", options.role,
                   "observer: may ask for the status; admin: may evict peers, too; neither may join")
      ->transform(sim::one_of({"member", "observer", "admin"}))
      ->capture_default_str();
  options.expires_option = command->add_option("-e,--expires", options.expires,
                                               "30min, 12h, 7d, 4w or 2026-12-31T00:00:00Z; default: never");
  CLI::Option* const peers =
      command->add_option("-p,--peers", options.peers, "most members at the same time; default: any number")
          ->check(CLI::Range(1U, kMaxMembers));
  command->add_flag("--once", options.once, "admits one peer, once")->excludes(peers);
  command->footer(R"(
Prints the token on stdout, and nothing else. The token is a password: keep it out of logs and of command lines that
others can see. The coordinator reads the changed file by itself.

Examples:
  lockstep token new --tokens run.tokens --name partner --expires 7d > partner.token
  lockstep token new --tokens run.tokens --address coordinator.example:4000 --address 203.0.113.7:4000
  lockstep token new --tokens run.tokens --role observer --name dashboard
  lockstep token new --tokens run.tokens --role admin --name operator
  lockstep token new --tokens run.tokens --once --expires 30min)");
}

void add_list(CLI::App& app, TokenOptions& options) {
  CLI::App* const command = subcommand(app, "list", "shows all tokens without their secrets", options);
  command->add_flag("-j,--json", options.json, "as JSON");
  command->footer(R"(
The state is "valid", "used" (a token of --once), "expired" or "revoked".

Examples:
  lockstep token list --tokens run.tokens
  lockstep token list --tokens run.tokens --json | jq '.[] | select(.state == "valid").name')");
}

void add_revoke(CLI::App& app, TokenOptions& options) {
  CLI::App* const command = subcommand(app, "revoke", "makes a token worthless", options);
  command->add_option("token", options.which, "its id, the first digits of its id, or its name")->required();
  command->footer(R"help(
A revoked token stays in the file. The whole text of a token names it, too: for one that became public.

Examples:
  lockstep token revoke --tokens run.tokens partner
  lockstep token revoke --tokens run.tokens 3f9a
  lockstep token revoke --tokens run.tokens "$(cat leaked.token)")help");
}

}  // namespace

Run add_token(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("token", "makes, lists and revokes the tokens that let peers join a run");
  auto options = std::make_shared<TokenOptions>();
  add_new(*command, *options);
  add_list(*command, *options);
  add_revoke(*command, *options);
  command->require_subcommand(1);
  command->footer(R"(
`lockstep coordinator --tokens FILE` creates the file, with a key of its own. Only the owner of the file may read it.
docs/security.md explains tokens.

Examples:
  lockstep token new --tokens run.tokens --name partner --expires 7d
  lockstep token list --tokens run.tokens
  lockstep token revoke --tokens run.tokens partner)");
  return [command, options] {
    leave_no_core_dump();
    const std::string name = command->get_subcommands().front()->get_name();
    if (name == "new") return create(*options);
    return name == "list" ? list(*options) : revoke(*options);
  };
}

}  // namespace lockstep::cli
