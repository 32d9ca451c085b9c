// `lockstep evict`: an administrator takes a peer out of a run.
#include <fmt/core.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "bindings/cli/api.h"
#include "bindings/cli/command.h"
#include "bindings/cli/protection.h"
#include "core/wire/message.h"
#include "sim/cli/usage.h"

namespace lockstep::cli {
namespace {

struct EvictOptions {
  std::string coordinator;
  std::string peer;
  transport::Protection protection;
  double timeout_s = 5;
};

std::string whole_id(PeerId id) { return fmt::format("{:016x}{:016x}", id.high, id.low); }

// The peers, members or waiting, with this name, or whose id begins with these digits.
std::vector<wire::Member> peers_named(const wire::StatusReply& status, std::string_view which) {
  constexpr std::size_t kLeastDigits = 4;
  std::vector<wire::Member> named;
  for (const auto* const peers : {&status.view.members, &status.waiting}) {
    for (const wire::Member& peer : *peers) {
      const bool by_id = which.size() >= kLeastDigits && whole_id(peer.id).starts_with(which);
      if (by_id || (!which.empty() && peer.name == which)) named.push_back(peer);
    }
  }
  return named;
}

int evict_one(const EvictOptions& options) {
  const auto status = ask_coordinator(options.coordinator, options.timeout_s, options.protection);
  const std::vector<wire::Member> named = peers_named(status, options.peer);
  if (named.empty()) {
    throw Failure(kExitFailed, fmt::format("no peer in the run, or waiting, is '{}': `lockstep status` shows names and "
                                           "ids; of an id, give the first 4 digits or more",
                                           options.peer));
  }
  if (named.size() > 1) {
    std::string ids;
    for (const wire::Member& peer : named) ids += (ids.empty() ? "" : ", ") + whole_id(peer.id);
    throw Failure(kExitFailed,
                  fmt::format("'{}' is {} peers ({}): give more digits of one id", options.peer, named.size(), ids));
  }
  const wire::EvictReply reply = evict(options.coordinator, named.front().id, options.timeout_s, options.protection);
  if (!reply.evicted) throw Failure(kExitFailed, reply.text);
  fmt::print("{}\n", reply.text);
  return kExitOk;
}

}  // namespace

Run add_evict(CLI::App& app) {
  CLI::App* command = app.add_subcommand("evict", "takes a peer out of a run, as an administrator");
  auto options = std::make_shared<EvictOptions>();
  command->add_option("coordinator", options->coordinator, "run token of an administrator; or file:PATH, env:NAME")
      ->required();
  command->add_option("peer", options->peer, "its name, or the first digits of its id, as `lockstep status` shows them")
      ->required();
  add_protection(*command, options->protection);
  command->add_option("-t,--timeout", options->timeout_s, "s to wait for an answer")
      ->check(sim::real_number(0.01, 86'400))
      ->capture_default_str();
  command->footer(R"(
The calls of the peer end with an error that names the token of the administrator, and the run goes on. The peer may not
join again for 10 s, longer each time: revoke its token to keep it out (`lockstep token revoke`). A run with
certificates has no administrators: there, put the peer's certificate on the revocation list of the coordinator.
Exit code 1: the coordinator refuses, or there is no such peer. Exit code 3: no coordinator answers.

Examples:
  umask 077                                    # a file with a token is for you alone
  lockstep token new --tokens run.tokens --role admin --name operator > admin.token
  lockstep status file:admin.token
  lockstep evict file:admin.token gpu-7
  lockstep evict file:admin.token 3f9a)");
  return [options] { return evict_one(*options); };
}

}  // namespace lockstep::cli
