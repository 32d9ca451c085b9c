// `lockstep_wan run`: a program on every peer of a topology. `lockstep_wan show`: what a topology says.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "core/base/assert.h"
#include "sim/scenario/hosts.h"
#include "sim/words/units.h"
#include "tests/lab/wan/box.h"
#include "tests/lab/wan/commands.h"
#include "tests/lab/wan/failure.h"
#include "tests/lab/wan/programs.h"
#include "tests/lab/wan/statistics.h"

namespace lockstep::wan {
namespace {

constexpr Duration kGrace = seconds(5);  // from SIGTERM to the end of everything

struct RunOptions {
  std::string topology;
  std::string coordinator;
  std::vector<std::string> words;
  bool json = false;
};

void replace_all(std::string& text, std::string_view what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
}

std::vector<std::string> filled_in(std::vector<std::string> words, const Topology& topology, std::uint32_t host) {
  for (std::string& word : words) {
    replace_all(word, "{host}", sim::letter_of(host));
    replace_all(word, "{address}", address_of(host));
    replace_all(word, "{index}", fmt::to_string(host));
    replace_all(word, "{peers}", fmt::to_string(topology.peers));
    replace_all(word, "{coordinator}", address_of(0));
  }
  return words;
}

// The programs of one run, until the last peer's has ended.
class RunningShow {
 public:
  RunningShow(const RunOptions& options, Topology topology)
      : options_(options), programs_(must(Programs::make())), box_(must(Box::make(std::move(topology)))) {}

  int run() {
    box_->start();
    if (!options_.coordinator.empty()) {
      start(0, {"sh", "-c", options_.coordinator});
    } else {
      start_peers();
    }
    while (!over_) handle(programs_->next());
    end_all();
    const std::vector<Forwarder::Reset> resets = box_->forwarder().resets();
    box_->forwarder().with_network([&](const Network& network) {
      if (options_.json) {
        fmt::print("{}\n", nlohmann::json{{"version", 1},
                                          {"topology", options_.topology},
                                          {"exit_code", code_},
                                          {"lines", statistics_json(box_->topology(), network)},
                                          {"resets", resets_json(resets)}}
                               .dump(2));
      } else {
        fmt::print("{}{}", statistics_text(box_->topology(), network), resets_text(resets));
      }
    });
    return code_;
  }

 private:
  void start(std::uint32_t host, const std::vector<std::string>& words) {
    const std::size_t who = must(programs_->start(box_->host(host), filled_in(words, box_->topology(), host)));
    hosts_.resize(who + 1);
    hosts_[who] = host;
  }

  void start_peers() {
    started_ = true;
    for (std::uint32_t peer = 1; peer <= box_->topology().peers; ++peer) start(peer, options_.words);
    peers_running_ = box_->topology().peers;
  }

  void handle(const Programs::Event& event) {
    if (const auto* const said = std::get_if<Programs::Said>(&event)) {
      std::FILE* const to = said->error || options_.json ? stderr : stdout;
      fmt::print(to, "{} | {}\n", sim::letter_of(hosts_[said->who]), said->line);
      std::fflush(to);
      if (!started_) start_peers();  // the coordinator has said that it listens
    } else if (const auto* const ended = std::get_if<Programs::Ended>(&event)) {
      const int code = exit_code_of(ended->status);
      if (hosts_[ended->who] != 0) {
        code_ = std::max(code_, code);
        over_ = --peers_running_ == 0;
      } else if (!over_) {
        code_ = std::max(code, static_cast<int>(kExitFailed));
        fmt::print(stderr, "lockstep_wan: the coordinator has ended before the peers, with {}\n", code);
        over_ = true;
      }
    } else if (std::holds_alternative<Programs::Interrupted>(event)) {
      code_ = kExitInterrupted;
      over_ = true;
    }
  }

  // Politely; what does not end, the destructor of the programs ends.
  void end_all() {
    const auto any = [&] {
      bool running = false;
      for (std::size_t who = 0; who < hosts_.size(); ++who) running = running || programs_->running(who);
      return running;
    };
    for (std::size_t who = 0; who < hosts_.size(); ++who) programs_->signal(who, SIGTERM);
    while (any()) {
      const Programs::Event event = programs_->next(kGrace);
      if (std::holds_alternative<Programs::TimedOut>(event) || std::holds_alternative<Programs::Interrupted>(event)) {
        return;
      }
      if (std::holds_alternative<Programs::Said>(event)) handle(event);
    }
  }

  const RunOptions& options_;
  std::unique_ptr<Programs> programs_;  // before the box: its threads know nothing of signals
  std::unique_ptr<Box> box_;
  std::vector<std::uint32_t> hosts_;  // of the programs
  bool started_ = false;
  bool over_ = false;
  std::uint32_t peers_running_ = 0;
  int code_ = kExitOk;
};

std::string rate_words(std::uint64_t bytes_per_s) {
  return bytes_per_s == 0 ? "-" : fmt::format("{:g} Mbit/s", static_cast<double>(bytes_per_s) * 8e-6);
}

std::string words_of(const Change& change) {
  const std::string from = sim::letter_of(change.from);
  const std::string to = sim::letter_of(change.to);
  switch (change.kind) {
    case Change::Kind::kCut: return "cut " + from + " -> " + to;
    case Change::Kind::kHeal: return "heal " + from + " -> " + to;
    case Change::Kind::kSlow: return fmt::format("slow {} -> {}, {} times", from, to, change.factor);
    case Change::Kind::kSpeedUp: return fmt::format("no longer slow {} -> {}, {} times", from, to, change.factor);
    case Change::Kind::kReset: return "reset the busiest connection of " + from + " and " + to;
  }
  LOCKSTEP_UNREACHABLE();
}

int show(const std::string& path) {
  const Topology topology = must(read_topology(path));
  fmt::print("# {}: {} peers, MTU {}\n# {:22} {:>14} {:>14} {:>10} {:>10} {:>8} {:>6}\n", topology.name, topology.peers,
             topology.mtu, "line", "rate", "queue bytes", "latency", "jitter", "loss", "burst");
  const auto row = [](const std::string& name, const LineOptions& line) {
    fmt::print("  {:22} {:>14} {:>14} {:>10} {:>10} {:>8} {:>6}\n", name, rate_words(line.rate_bytes_per_s),
               line.rate_bytes_per_s == 0 ? "-" : fmt::to_string(line.queue_bytes), sim::words_of(line.latency),
               sim::words_of(line.jitter), line.loss, line.burst);
  };
  for (std::uint32_t host = 0; host < topology.hosts(); ++host) {
    const std::string name = fmt::format("{} ({})", sim::letter_of(host), address_of(host));
    row(name + " up", topology.up[host]);
    row(name + " down", topology.down[host]);
  }
  for (const SharedLine& line : topology.shared) {
    row(line.name + " shared up", line.up);
    row(line.name + " shared down", line.down);
  }
  for (std::uint32_t from = 0; from < topology.hosts(); ++from) {
    for (std::uint32_t to = 0; to < topology.hosts(); ++to) {
      if (from != to) row(sim::letter_of(from) + " -> " + sim::letter_of(to), topology.way(from, to));
    }
  }
  if (!topology.changes.empty()) fmt::print("# {:>20}\n", "at");
  for (const Change& change : topology.changes) {
    fmt::print("  {:>20}  {}\n", sim::words_of(change.at), words_of(change));
  }
  return kExitOk;
}

}  // namespace

Run add_run(CLI::App& app) {
  CLI::App* command = app.add_subcommand("run", "a program on every peer");
  auto options = std::make_shared<RunOptions>();
  command->add_option("topology", options->topology, "TOML file")->required();
  command->add_option("--coordinator", options->coordinator,
                      "a line for `sh` on the coordinator's host; the peers start when it has printed a line");
  command->add_option("command", options->words, "after --: the program of the peers, and its arguments")->required();
  command->add_flag("-j,--json", options->json, "statistics as JSON; what the programs print goes to stderr");
  command->footer(R"(
In all words: {host} is a, b, ...; {address} its address, {index} its number from 1; {peers} how many there are;
{coordinator} the address of the coordinator. What programs print gets the host before it. When the last peer's program has
ended, so has the run: the coordinator gets SIGTERM, and what is left after 5 s is killed.

Examples:
  lockstep_wan run four-homes.toml -- ping -c 3 10.77.0.1
  lockstep_wan run four-homes.toml --coordinator 'lockstep coordinator --insecure -l {address}:4000' --
      lockstep bench --insecure --coordinator {coordinator}:4000 -p {peers} -b 8M -e 8M)");
  return [options] { return RunningShow(*options, must(read_topology(options->topology))).run(); };
}

Run add_show(CLI::App& app) {
  CLI::App* command = app.add_subcommand("show", "every line of a topology, and what happens, as it was understood");
  auto path = std::make_shared<std::string>();
  command->add_option("topology", *path, "TOML file")->required();
  return [path] { return show(*path); };
}

}  // namespace lockstep::wan
