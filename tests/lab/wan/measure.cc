// `lockstep_wan measure`: the time of an all-reduce between real peers on a topology.
#include <fmt/core.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "sim/cli/usage.h"
#include "tests/lab/wan/bench_flags.h"
#include "tests/lab/wan/box.h"
#include "tests/lab/wan/commands.h"
#include "tests/lab/wan/failure.h"
#include "tests/lab/wan/limits.h"
#include "tests/lab/wan/measurement.h"
#include "tests/lab/wan/programs.h"
#include "tests/lab/wan/statistics.h"

namespace lockstep::wan {
namespace {

struct MeasureOptions : BenchFlags {  // without a congestion control: the topology's
  std::string topology;
  bool json = false;
};

struct Row {
  Measured measured;
  std::vector<sim::Bound> limits;  // of all algorithms
  std::uint64_t bytes = 0;

  [[nodiscard]] const sim::Bound& limit() const { return sim::least_of(limits); }
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

double bus_bit_per_s(const Row& row, std::uint32_t peers) {
  return static_cast<double>(row.bytes) * 8 * 2 * (peers - 1) / peers / row.measured.median_s();
}

void print_head(const Topology& topology, const nlohmann::json& tcp) {
  fmt::print("# {}: {} peers, all-reduce of f32, out of place; time of the slowest peer\n", topology.name,
             topology.peers);
  fmt::print("# TCP: {}, tcp_rmem {}, tcp_wmem {}; MTU {}\n", tcp.at("tcp_congestion_control").get<std::string>(),
             tcp.at("tcp_rmem").get<std::string>(), tcp.at("tcp_wmem").get<std::string>(), topology.mtu);
  fmt::print("# {:>10} {:>6} {:>10} {:>10} {:>10} {:>12} | {:>9} {:>9} {:>9} {:>9} {:>7} {:<6} | used\n", "bytes",
             "calls", "median s", "least s", "most s", "bus Mbit/s", "limit s", "hops s", "lines s", "agree s",
             "median/", "of");
  std::fflush(stdout);
}

void print_row(const Row& row, std::uint32_t peers) {
  const sim::Bound& limit = row.limit();
  fmt::print(
      "  {:>10} {:>6} {:>10.3f} {:>10.3f} {:>10.3f} {:>12.1f} | {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>7.2f} {:<6} | "
      "{}\n",
      row.bytes, row.measured.timing.at("iterations").get<std::uint32_t>(), row.measured.median_s(),
      row.measured.least_s(), row.measured.most_s(), bus_bit_per_s(row, peers) * 1e-6, limit.whole().seconds(),
      limit.latencies.seconds(), limit.lines.seconds(), limit.agreement.seconds(),
      limit.whole().ns > 0 ? row.measured.median_s() / limit.whole().seconds() : 0, name_of(limit.algorithm),
      row.measured.timing.value("congestion_control", ""));
  std::fflush(stdout);
}

nlohmann::json limit_json(const sim::Bound& limit) {
  return {{"algorithm", name_of(limit.algorithm)},
          {"limit_s", limit.whole().seconds()},
          {"hops", limit.hops},
          {"latencies_s", limit.latencies.seconds()},
          {"lines_s", limit.lines.seconds()},
          {"agreement_s", limit.agreement.seconds()}};
}

double ratio_of(const Effect& effect) {
  const double undisturbed = median_of(effect.undisturbed);
  return undisturbed > 0 ? median_of(effect.disturbed) / undisturbed : 0;
}

void print_effect(const Measured& measured) {
  const Effect& effect = *measured.effect;
  const auto side = [](const char* name, const std::vector<double>& calls) {
    if (calls.empty()) return fmt::format("no {} call", name);
    const auto [least, most] = std::minmax_element(calls.begin(), calls.end());
    return fmt::format("{} {} {:.3f} ({:.3f} to {:.3f})", calls.size(), name, median_of(calls), *least, *most);
  };
  std::vector<double> back;
  for (const Forwarder::Reset& reset : measured.resets) {
    if (reset.back_after) back.push_back(reset.back_after->seconds());
  }
  fmt::print("  {:>10} {}, {}: {:.4f}; {} of {} resets hit, {} streams came back, after {:.0f} ms; {} retries\n",
             "resets", side("undisturbed", effect.undisturbed), side("disturbed", effect.disturbed), ratio_of(effect),
             effect.hit, effect.wanted, back.size(), median_of(back) * 1e3,
             measured.timing.at("retries").get<std::uint64_t>());
  std::fflush(stdout);
}

nlohmann::json effect_json(const Measured& measured) {
  const Effect& effect = *measured.effect;
  return {{"undisturbed_s", effect.undisturbed},
          {"disturbed_s", effect.disturbed},
          {"undisturbed_median_s", median_of(effect.undisturbed)},
          {"disturbed_median_s", median_of(effect.disturbed)},
          {"ratio", ratio_of(effect)},
          {"wanted", effect.wanted},
          {"hit", effect.hit},
          {"retries", measured.timing.at("retries")},
          {"resets", resets_json(measured.resets)}};
}

nlohmann::json json_of(const Row& row, std::uint32_t peers) {
  nlohmann::json j = {{"bytes", row.bytes},
                      {"calls", row.measured.timing.at("iterations")},
                      {"median_s", row.measured.median_s()},
                      {"least_s", row.measured.least_s()},
                      {"most_s", row.measured.most_s()},
                      {"busbw_bit_per_s", bus_bit_per_s(row, peers)},
                      {"limit", limit_json(row.limit())},
                      {"lines", row.measured.lines}};
  for (const sim::Bound& limit : row.limits) j["limits"].push_back(limit_json(limit));
  if (row.measured.effect) j["disturbance"] = effect_json(row.measured);
  return j;
}

int show_times(MeasureOptions options) {
  const Topology topology = must(read_topology(options.topology));
  if (options.bench.congestion_control.empty()) options.bench.congestion_control = topology.congestion;
  needs_two_peers(topology, options.topology);
  if (options.bench.resets > 0 && options.bench.iterations < 2) {
    throw Failure(kExitUsage, fmt::format("--resets {}: every second call is disturbed, so measure two or more: "
                                          "--iters {} is too few",
                                          options.bench.resets, options.bench.iterations));
  }
  const std::unique_ptr<Programs> programs = must(Programs::make());
  const nlohmann::json tcp = tcp_settings(topology, options.bench.congestion_control);
  if (!options.json) print_head(topology, tcp);
  nlohmann::json rows = nlohmann::json::array();
  for (const std::uint64_t bytes : options.sizes) {
    const Row row{measure(options.bench, *programs, topology, bytes), limits(topology, bytes), bytes};
    if (!options.json) print_row(row, topology.peers);
    if (!options.json && row.measured.effect) print_effect(row.measured);
    rows.push_back(json_of(row, topology.peers));
  }
  if (options.json) {
    nlohmann::json all = json_head(options.topology, topology);
    all["tcp"] = tcp;
    all["rows"] = rows;
    fmt::print("{}\n", all.dump(2));
  } else {
    fmt::print(
        "# limit: the longer of hops, and of lines and one hop, then agree: what the named algorithm takes at least, "
        "the "
        "least of\n"
        "# ring, direct and grid; lines: until the busiest line has carried its bytes; agree: until all know the "
        "outcome;\n"
        "# median/: the median over the limit\n");
    if (options.bench.resets > 0) {
      fmt::print(
          "# resets: medians in seconds of the calls without and with them, and their ratio; hit: one that met a "
          "connection\n# with data; came back: a new one carried data between the same hosts; retries: attempts of "
          "calls that were given up\n");
    }
  }
  return kExitOk;
}

}  // namespace

Run add_measure(CLI::App& app) {
  CLI::App* command = app.add_subcommand("measure", "the time of an all-reduce between its peers");
  auto options = std::make_shared<MeasureOptions>();
  command->add_option("topology", options->topology, "TOML file")->required();
  options->declare(*command);
  command->add_option("--congestion-control", options->bench.congestion_control,
                      "of TCP between the peers, instead of the topology's");
  command
      ->add_option("--resets", options->bench.resets,
                   "resets so many streams in the midst of every second call, and compares those with the others")
      ->check(CLI::Range(0, 64));
  command->add_option("bench", options->bench.more, "after --: more options of `lockstep bench`, such as --stripes 4");
  command->add_flag("-j,--json", options->json, "the same facts as JSON, and what each line has carried");
  command->footer(R"(
Runs `lockstep coordinator` on the coordinator's host and `lockstep bench` on each peer, which join in the order of their
names: that is the ring.

Examples:
  lockstep_wan measure tests/lab/wan/topologies/even-4.toml
  lockstep_wan measure tests/lab/wan/topologies/even-4.toml --size 64MiB -n 9 --json -- --stripes 8
  lockstep_wan measure tests/lab/wan/topologies/line-4.toml --size 64MiB -n 20 --resets 1 -- --stripes 8)");
  return [options] { return show_times(*options); };
}

}  // namespace lockstep::wan
