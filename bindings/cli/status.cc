// `lockstep status`: queries the status of a run from its coordinator.
#include <fmt/core.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bindings/cli/api.h"
#include "bindings/cli/callers.h"
#include "bindings/cli/command.h"
#include "bindings/cli/default_ways.h"
#include "bindings/cli/protection.h"
#include "bindings/cli/size.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/wire/message.h"
#include "core/wire/run_token.h"
#include "sim/cli/usage.h"

namespace lockstep::cli {
namespace {

struct StatusOptions {
  std::string coordinator;
  transport::Protection protection;
  bool watch = false;
  bool json = false;
  double interval_s = 1;
  double timeout_s = 5;
};

std::string id_text(PeerId id) { return fmt::format("{:016x}{:016x}", id.high, id.low); }

// The rates between two samples of one coordinator.
struct Rates {
  double commits = 0;
  double aborts = 0;
  double bytes_reduced = 0;
};

std::optional<Rates> rates_of(const std::optional<wire::StatusReply>& before, const wire::StatusReply& now) {
  // the coordinator may have restarted
  if (!before || now.uptime <= before->uptime || now.commits < before->commits) return std::nullopt;
  const double elapsed = (now.uptime - before->uptime).seconds();
  const auto rate = [&](std::uint64_t a, std::uint64_t b) { return static_cast<double>(b - a) / elapsed; };
  return Rates{rate(before->commits, now.commits), rate(before->aborts, now.aborts),
               rate(before->bytes_reduced, now.bytes_reduced)};
}

// The run token or the certificate by which this peer has joined; empty: none, in a run without TLS.
std::string identity_of(const wire::StatusReply& reply, PeerId peer) {
  const auto at = std::ranges::find(reply.proofs, peer, &wire::Proof::peer);
  return at == reply.proofs.end() ? std::string() : at->by;
}

nlohmann::json json_of(const wire::StatusReply& reply, const wire::Member& member) {
  nlohmann::json m = {{"id", id_text(member.id)},         {"name", member.name},
                      {"group", member.group.value},      {"gang", member.gang.value},
                      {"address", member.address.text()}, {"calls_out", member.calls_out}};
  if (const std::string by = identity_of(reply, member.id); !by.empty()) m["identity"] = by;
  return m;
}

nlohmann::json json_of(const std::vector<PeerId>& peers) {
  nlohmann::json ids = nlohmann::json::array();
  for (const PeerId peer : peers) ids.push_back(id_text(peer));
  return ids;
}

nlohmann::json json_of(const wire::StatusReply& reply, const std::optional<Rates>& rates) {
  nlohmann::json j;
  j["version"] = 1;
  j["uptime_seconds"] = reply.uptime.seconds();
  j["term"] = reply.view.term.value;
  j["view"] = reply.view.number.value;
  j["cohort"] = reply.view.cohort.value;
  j["changing"] = reply.proposal_open;
  j["members"] = nlohmann::json::array();
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < reply.view.members.size(); ++i) {
    const wire::Member& member = reply.view.members[i];
    rank = i > 0 && reply.view.members[i - 1].group == member.group ? rank + 1 : 0;
    nlohmann::json m = json_of(reply, member);
    m["rank"] = rank;
    j["members"].push_back(std::move(m));
    j["rings"][std::to_string(member.group.value)].push_back(id_text(member.id));
  }
  j["default_ways"] = nlohmann::json::array();
  for (const DefaultWay& way : default_ways(reply.view)) j["default_ways"].push_back(way.json());
  j["waiting"] = nlohmann::json::array();
  for (const wire::Member& member : reply.waiting) j["waiting"].push_back(json_of(reply, member));
  j["rounds"] = nlohmann::json::array();
  for (const wire::RoundStatus& round : reply.rounds) {
    j["rounds"].push_back({{"cohort", round.key.cohort.value},
                           {"group", round.key.group.value},
                           {"tag", round.key.tag.value},
                           {"use", round.key.use},
                           {"attempt", round.attempt.value},
                           {"done", round.done},
                           {"members", round.members}});
  }
  j["counters"] = {{"commits", reply.commits},
                   {"aborts", reply.aborts},
                   {"repairs", reply.repairs},
                   {"admitted", reply.admitted},
                   {"lost", reply.lost},
                   {"left", reply.left},
                   {"bytes_reduced", reply.bytes_reduced}};
  j["troubles"] = nlohmann::json::array();
  for (const wire::Trouble& trouble : reply.troubles) {
    nlohmann::json t = {
        {"seconds_ago", trouble.age.seconds()}, {"peer", id_text(trouble.peer)}, {"text", trouble.text}};
    if (!trouble.other.is_nobody()) t["other"] = id_text(trouble.other);
    j["troubles"].push_back(std::move(t));
  }
  j["waits"] = nlohmann::json::array();
  for (const wire::WaitStatus& wait : reply.waits) {
    nlohmann::json w = {{"call", wait.call}, {"seconds", wait.age.seconds()}, {"text", wait.text}};
    if (wait.call != "admit") w["tag"] = wait.key.tag.value;
    if (wait.key.cohort.value != 0) {
      w["group"] = wait.key.group.value;
      w["cohort"] = wait.key.cohort.value;
      w["use"] = wait.key.use;
    }
    w["come"] = json_of(wait.come);
    w["missing"] = json_of(wait.missing);
    j["waits"].push_back(std::move(w));
  }
  if (rates) {
    j["rates"] = {{"commits_per_second", rates->commits},
                  {"aborts_per_second", rates->aborts},
                  {"bytes_reduced_per_second", rates->bytes_reduced}};
  }
  return j;
}

void print_members(const wire::StatusReply& reply) {
  const wire::View& view = reply.view;
  fmt::print("  {:>5} {:>5}  {:<8}  {:<16} {:<22} {}\n", "group", "rank", "id", "name", "address",
             reply.proofs.empty() ? "gang" : "gang  identity");
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < view.members.size(); ++i) {
    const wire::Member& member = view.members[i];
    rank = i > 0 && view.members[i - 1].group == member.group ? rank + 1 : 0;
    const std::string gang = member.gang.value == 0 ? "-" : std::to_string(member.gang.value);
    const std::string by = identity_of(reply, member.id);
    fmt::print("  {:>5} {:>5}  {:<8}  {:<16} {:<22} {}\n", member.group.value, rank, short_id(member.id),
               member.name.empty() ? "-" : member.name, member.address.text(),
               by.empty() ? gang : fmt::format("{:<4}  {}", gang, by));
  }
}

void print_rings(const wire::View& view) {
  for (std::size_t i = 0; i < view.members.size();) {
    const GroupId group = view.members[i].group;
    std::string ring;
    for (; i < view.members.size() && view.members[i].group == group; ++i) {
      const wire::Member& member = view.members[i];
      ring += label_of(view, member) + " > ";
    }
    fmt::print("ring of group {}: {}(first)\n", group.value, ring);
  }
}

void print_text(const std::string& address, const wire::StatusReply& reply, const std::optional<Rates>& rates) {
  fmt::print("{}: up {:.1f} s, view {} of term {}, {} members, {} waiting{}\n", address, reply.uptime.seconds(),
             reply.view.number.value, reply.view.term.value, reply.view.members.size(), reply.waiting.size(),
             reply.proposal_open ? ", a change of view under way" : "");
  if (!reply.view.members.empty()) {
    print_members(reply);
    print_rings(reply.view);
    for (const std::string& line : callers(reply.view)) fmt::print("{}\n", line);
    for (const std::string& line : parted_neighbours(reply.view)) fmt::print("{}\n", line);
    for (const DefaultWay& way : default_ways(reply.view)) fmt::print("{}\n", way.text());
  }
  for (const wire::Member& member : reply.waiting) {
    const std::string by = identity_of(reply, member.id);
    fmt::print("waiting: {} {} at {}{}\n", short_id(member.id), member.name, member.address.text(),
               by.empty() ? "" : ", by " + by);
  }
  for (const wire::RoundStatus& round : reply.rounds) {
    fmt::print("round: group {}, tag {}, use {}, attempt {}: {} of {} are done\n", round.key.group.value,
               round.key.tag.value, round.key.use, round.attempt.value, round.done, round.members);
  }
  for (const wire::WaitStatus& wait : reply.waits) fmt::print("{}\n", wait.text);
  for (const wire::Trouble& trouble : reply.troubles) {
    fmt::print("trouble {:.1f} s ago: {}\n", trouble.age.seconds(), trouble.text);
  }
  fmt::print("so far: {} commits, {} aborts, {} repairs, {} admitted, {} lost, {} left, {} reduced\n", reply.commits,
             reply.aborts, reply.repairs, reply.admitted, reply.lost, reply.left, size_words(reply.bytes_reduced));
  if (rates) {
    fmt::print("now: {:.1f} commits/s, {:.1f} aborts/s, {:.3f} GB/s reduced\n", rates->commits, rates->aborts,
               rates->bytes_reduced * 1e-9);
  }
}

// Waits for the next sample, or for a signal that ends the watch.
class Pause {
 public:
  Pause() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    signals_ = signalfd(-1, &set, SFD_CLOEXEC);
  }
  ~Pause() { ::close(signals_); }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

  // Returns whether the watch continues.
  [[nodiscard]] bool wait(double interval) const {  // seconds
    pollfd place{signals_, POLLIN, 0};
    return ::poll(&place, 1, static_cast<int>(interval * 1000)) == 0;
  }

 private:
  int signals_ = -1;
};

int ask(const StatusOptions& options) {
  std::optional<Pause> pause;  // only while watching; otherwise a signal simply ends the process
  const bool screen = options.watch && !options.json && ::isatty(STDOUT_FILENO) != 0;
  std::optional<wire::StatusReply> before;
  for (;;) {
    auto reply = ask_coordinator(options.coordinator, options.timeout_s, options.protection);
    const auto rates = rates_of(before, reply);
    if (screen) fmt::print("\x1b[H\x1b[2J");  // home, clear
    if (options.json) {
      fmt::print("{}\n", json_of(reply, rates).dump(options.watch ? -1 : 2));
    } else {
      print_text(wire::redacted(options.coordinator), reply, rates);
      if (options.watch && !screen) fmt::print("\n");
    }
    std::fflush(stdout);
    before = std::move(reply);
    if (!options.watch) return kExitOk;
    if (!pause) pause.emplace();
    if (!pause->wait(options.interval_s)) return kExitInterrupted;
  }
}

}  // namespace

Run add_status(CLI::App& app) {
  CLI::App* command = app.add_subcommand("status", "asks a coordinator for members, rounds and counters");
  auto options = std::make_shared<StatusOptions>();
  command->add_option("coordinator", options->coordinator, "run token; or HOST:PORT, file:PATH, env:NAME")->required();
  add_protection(*command, options->protection);
  command->add_flag("-w,--watch", options->watch, "repeats the answer with rates until Ctrl-C");
  command->add_flag("-j,--json", options->json, "as JSON; with --watch one object per line");
  command->add_option("-i,--interval", options->interval_s, "s between two answers of --watch")
      ->check(sim::real_number(0.01, 86'400))
      ->capture_default_str();
  command->add_option("-t,--timeout", options->timeout_s, "s to wait for an answer")
      ->check(sim::real_number(0.01, 86'400))
      ->capture_default_str();
  command->footer(R"(
Shows the members in ring order with the run tokens or certificates by which they have joined, the newcomers that wait
for admission, the rounds that some members have finished
and others have not, the calls that wait for some seconds with those that they wait for, and counters since the
coordinator started; with --watch also rates. "reduced" counts a tensor once, not once per peer.
Exit code 1: the coordinator refuses.
Exit code 3: nothing answers at the address, or the answer is not that of a coordinator.

Examples:
  lockstep status 127.0.0.1:4000
  lockstep status file:run.token --watch --interval 0.5
  lockstep status env:LOCKSTEP_COORDINATOR --json | jq '.members[].name'
  lockstep status coordinator.example:4000 --certificate me.pem --private-key me.key --authority ca.pem)");
  return [options] { return ask(*options); };
}

}  // namespace lockstep::cli
