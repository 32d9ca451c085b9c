// `lockstep_wan measure`: the time of an all-reduce between real peers on a topology.
#include <fmt/core.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "sim/cli/usage.h"
#include "sim/scenario_hosts.h"
#include "sim/units.h"
#include "tests/wan/box.h"
#include "tests/wan/commands.h"
#include "tests/wan/failure.h"
#include "tests/wan/programs.h"
#include "tests/wan/ring_bound.h"
#include "tests/wan/statistics.h"

namespace lockstep::wan {
namespace {

struct MeasureOptions {
  std::string topology;
  std::string lockstep = LOCKSTEP_CLI;
  std::vector<std::uint64_t> sizes = {8U << 20U, 64U << 20U};
  std::uint32_t iterations = 5;
  std::uint32_t warmup = 1;
  std::string congestion_control;  // empty: the topology's
  std::vector<std::string> more;   // options of `lockstep bench`
  bool json = false;
};

struct Row {
  nlohmann::json timing;  // out of place, as `lockstep bench --json` says it
  RingBound bound;
  std::uint64_t bytes = 0;
  nlohmann::json lines;
};

// One size: a box, a coordinator, peers, and what rank 0 has printed.
class Measurement {
 public:
  Measurement(const MeasureOptions& options, Programs& programs, const Topology& topology, std::uint64_t bytes)
      : options_(options), programs_(programs), topology_(topology), bytes_(bytes), box_(must(Box::make(topology))) {}

  Row run() {
    box_->start();
    coordinator_ = start(0, {options_.lockstep, "coordinator", "--listen", address_of(0) + ":4000"});
    while (started_ < topology_.peers || left_ > 0) handle(programs_.next());
    programs_.signal(coordinator_, SIGTERM);
    while (programs_.running(coordinator_)) programs_.next();
    const nlohmann::json result = nlohmann::json::parse(said_, nullptr, false);
    if (result.is_discarded()) throw Failure(kExitFailed, "`lockstep bench` has printed no result: " + said_);
    Row row;
    row.timing = result.at("rows").at(0).at("out_of_place");
    row.bound = ring_bound(topology_, bytes_);
    row.bytes = bytes_;
    row.lines = box_->forwarder().with_network([&](const Network& n) { return statistics_json(topology_, n); });
    return row;
  }

 private:
  std::size_t start(std::uint32_t host, const std::vector<std::string>& words) {
    return must(programs_.start(box_->host(host), words));
  }

  // One after the other, as the ring has the order in which they ask to join.
  void start_peer() {
    std::vector<std::string> words = {options_.lockstep, "bench", "--only", "out", "--json"};
    const auto add = [&](const std::string& option, const auto& value) {
      words.insert(words.end(), {option, fmt::format("{}", value)});
    };
    add("--coordinator", address_of(0) + ":4000");
    add("--peers", topology_.peers);
    add("--begin", bytes_);
    add("--end", bytes_);
    add("--iters", options_.iterations);
    add("--warmup", options_.warmup);
    if (!options_.congestion_control.empty()) add("--congestion-control", options_.congestion_control);
    words.insert(words.end(), options_.more.begin(), options_.more.end());
    ++started_;
    ++left_;
    peers_.push_back(start(started_, words));
  }

  void handle(const Programs::Event& event) {
    if (const auto* const said = std::get_if<Programs::Said>(&event)) {
      hear(*said);
    } else if (const auto* const ended = std::get_if<Programs::Ended>(&event)) {
      if (ended->who == coordinator_) throw Failure(kExitFailed, "the coordinator has ended: " + last_error_);
      const int code = exit_code_of(ended->status);
      if (code != 0) throw Failure(kExitFailed, fmt::format("a peer has ended with {}: {}", code, last_error_));
      --left_;
    } else if (std::holds_alternative<Programs::Interrupted>(event)) {
      throw Failure(kExitInterrupted, "interrupted");
    }
  }

  void hear(const Programs::Said& said) {
    const bool coordinator = said.who == coordinator_;
    const bool listens = coordinator && !said.error;
    const bool waits = coordinator && said.line.find(" peer-waiting ") != std::string::npos;
    if ((listens || waits) && started_ < topology_.peers) start_peer();
    if (said.error && !(waits || listens)) last_error_ = said.line;
    if (!peers_.empty() && said.who == peers_.front() && !said.error) said_ += said.line + "\n";
  }

  const MeasureOptions& options_;
  Programs& programs_;
  const Topology& topology_;
  const std::uint64_t bytes_;
  std::unique_ptr<Box> box_;
  std::size_t coordinator_ = 0;
  std::vector<std::size_t> peers_;
  std::uint32_t started_ = 0;
  std::uint32_t left_ = 0;  // of those started, that have not ended
  std::string said_;
  std::string last_error_;
};

// What TCP has in a namespace: "tcp_rmem" and the like.
std::string tcp_setting(const NetSpace& space, const std::string& name) {
  return space.within([&] {
    std::ifstream file("/proc/sys/net/ipv4/" + name);
    std::string line;
    std::getline(file, line);
    std::replace(line.begin(), line.end(), '\t', ' ');
    return line;
  });
}

// What the peers' streams will have. A peer that is refused its congestion control would say so in its log alone.
nlohmann::json tcp_settings(const Topology& topology, const std::string& congestion_control) {
  const auto box = must(Box::make(topology));
  nlohmann::json settings;
  for (const char* name : {"tcp_congestion_control", "tcp_rmem", "tcp_wmem"}) {
    settings[name] = tcp_setting(box->host(1), name);
  }
  if (congestion_control.empty()) return settings;
  const File socket(box->host(1).within([] { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }));
  if (::setsockopt(socket.number(), IPPROTO_TCP, TCP_CONGESTION, congestion_control.data(),
                   static_cast<socklen_t>(congestion_control.size())) != 0) {
    throw Failure(kExitFailed,
                  fmt::format("--congestion-control {}: {}; the system has: {}", congestion_control,
                              std::strerror(errno), tcp_setting(box->host(1), "tcp_available_congestion_control")));
  }
  settings["tcp_congestion_control"] = congestion_control;
  return settings;
}

double median_s(const Row& row) { return row.timing.at("median_us").get<double>() * 1e-6; }
double bus_bit_per_s(const Row& row, std::uint32_t peers) {
  return static_cast<double>(row.bytes) * 8 * 2 * (peers - 1) / peers / median_s(row);
}

void print_head(const Topology& topology, const nlohmann::json& tcp) {
  fmt::print("# {}: {} peers, all-reduce of f32, out of place; time of the slowest peer\n", topology.name,
             topology.peers);
  fmt::print("# TCP: {}, tcp_rmem {}, tcp_wmem {}; MTU {}\n", tcp.at("tcp_congestion_control").get<std::string>(),
             tcp.at("tcp_rmem").get<std::string>(), tcp.at("tcp_wmem").get<std::string>(), topology.mtu);
  fmt::print("# {:>10} {:>6} {:>10} {:>10} {:>10} {:>12} | {:>10} {:>10} {:>7}\n", "bytes", "calls", "median s",
             "least s", "most s", "bus Mbit/s", "lines s", "latency s", "median/");
  std::fflush(stdout);
}

void print_row(const Row& row, std::uint32_t peers) {
  const double closed = (row.bound.carrying + row.bound.latencies).seconds();
  fmt::print("  {:>10} {:>6} {:>10.3f} {:>10.3f} {:>10.3f} {:>12.1f} | {:>10.3f} {:>10.3f} {:>7.2f}\n", row.bytes,
             row.timing.at("iterations").get<std::uint32_t>(), median_s(row),
             row.timing.at("least_us").get<double>() * 1e-6, row.timing.at("most_us").get<double>() * 1e-6,
             bus_bit_per_s(row, peers) * 1e-6, row.bound.carrying.seconds(), row.bound.latencies.seconds(),
             closed > 0 ? median_s(row) / closed : 0);
  std::fflush(stdout);
}

nlohmann::json json_of(const Row& row, std::uint32_t peers) {
  return {{"bytes", row.bytes},
          {"calls", row.timing.at("iterations")},
          {"median_s", median_s(row)},
          {"least_s", row.timing.at("least_us").get<double>() * 1e-6},
          {"most_s", row.timing.at("most_us").get<double>() * 1e-6},
          {"busbw_bit_per_s", bus_bit_per_s(row, peers)},
          {"ring_lines_s", row.bound.carrying.seconds()},
          {"ring_latencies_s", row.bound.latencies.seconds()},
          {"lines", row.lines}};
}

int measure(MeasureOptions options) {
  const Topology topology = must(read_topology(options.topology));
  if (options.congestion_control.empty()) options.congestion_control = topology.congestion;
  if (topology.peers < 2) throw Failure(kExitUsage, options.topology + ": an all-reduce needs two peers");
  const std::unique_ptr<Programs> programs = must(Programs::make());
  const nlohmann::json tcp = tcp_settings(topology, options.congestion_control);
  if (!options.json) print_head(topology, tcp);
  nlohmann::json rows = nlohmann::json::array();
  for (const std::uint64_t bytes : options.sizes) {
    const Row row = Measurement(options, *programs, topology, bytes).run();
    if (!options.json) print_row(row, topology.peers);
    rows.push_back(json_of(row, topology.peers));
  }
  if (options.json) {
    fmt::print("{}\n", nlohmann::json{{"version", 1},
                                      {"topology", options.topology},
                                      {"name", topology.name},
                                      {"peers", topology.peers},
                                      {"mtu", topology.mtu},
                                      {"tcp", tcp},
                                      {"rows", rows}}
                           .dump(2));
  } else {
    fmt::print(
        "# lines: what the slowest line of the ring a, b, ... needs for its 2(n-1)/n; latency: of its 2(n-1) hops;\n"
        "# median/: the median over their sum\n");
  }
  return kExitOk;
}

CLI::Validator size_words() {
  return {[](std::string& text) -> std::string {
            const auto bytes = sim::bytes_of(text);
            if (!bytes || *bytes == 0) return fmt::format("'{}' is no size, such as 64MiB", text);
            text = fmt::to_string(*bytes);
            return {};
          },
          "SIZE"};
}

}  // namespace

Run add_measure(CLI::App& app) {
  CLI::App* command = app.add_subcommand("measure", "the time of an all-reduce between its peers");
  auto options = std::make_shared<MeasureOptions>();
  command->add_option("topology", options->topology, "TOML file")->required();
  command->add_option("-s,--size", options->sizes, "of the tensor: 8MiB, ...; each is a run of its own")
      ->transform(size_words())
      ->capture_default_str();
  command->add_option("-n,--iters", options->iterations, "calls that are measured")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("-w,--warmup", options->warmup, "calls before, after the one that is checked")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--congestion-control", options->congestion_control,
                      "of TCP between the peers, instead of the topology's");
  command->add_option("--lockstep", options->lockstep, "the `lockstep` command")->capture_default_str();
  command->add_option("bench", options->more, "after --: more options of `lockstep bench`, such as --stripes 4");
  command->add_flag("-j,--json", options->json, "the same facts as JSON, and what each line has carried");
  command->footer(R"(
Runs `lockstep coordinator` on the coordinator's host and `lockstep bench` on each peer, which join in the order of their
names: that is the ring.

Examples:
  lockstep_wan measure tests/wan/topologies/even-4.toml
  lockstep_wan measure tests/wan/topologies/even-4.toml --size 64MiB -n 9 --json -- --stripes 8)");
  return [options] { return measure(*options); };
}

}  // namespace lockstep::wan
