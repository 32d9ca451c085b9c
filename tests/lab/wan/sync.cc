// `lockstep_wan sync`: how fast a newcomer takes a shared state over, from one source and from more.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "sim/predict/real_lines.h"
#include "sim/scenario/hosts.h"
#include "tests/lab/wan/bench_flags.h"
#include "tests/lab/wan/commands.h"
#include "tests/lab/wan/failure.h"
#include "tests/lab/wan/measurement.h"

namespace lockstep::wan {
namespace {

struct SyncOptions : BenchFlags {
  std::string topology;
  std::vector<std::uint32_t> sources;  // empty: one, and all that there are
  std::uint32_t runs = 3;
  bool json = false;
};

// From so many sources, the first peers; the last peer is the newcomer.
struct Takeover {
  std::uint32_t sources = 0;
  std::uint64_t bytes = 0;
  double lines_s = 0;               // what their own lines take for the state alone; 0: they have no limit
  std::vector<nlohmann::json> all;  // what each run has measured, and what lines have carried in it
  std::vector<double> runs;         // the median of each, in seconds, sorted

  // Of an even number the mean of the two in the middle.
  [[nodiscard]] double median_s() const { return (runs[(runs.size() - 1) / 2] + runs[runs.size() / 2]) / 2; }
  [[nodiscard]] double bit_per_s() const { return static_cast<double>(bytes) * 8 / median_s(); }
};

double lines_s_of(const Topology& topology, std::uint32_t sources, std::uint64_t bytes) {
  std::uint64_t rate = 0;
  bool limited = true;
  for (std::uint32_t source = 1; source <= sources; ++source) {
    rate += topology.up[source].rate_bytes_per_s;
    limited = limited && topology.up[source].rate_bytes_per_s > 0;
  }
  const std::uint64_t down = topology.down[topology.peers].rate_bytes_per_s;
  if (!limited || (down > 0 && down < rate)) rate = down;
  if (rate == 0) return 0;
  return static_cast<double>(bytes) / static_cast<double>(sim::payload_rate(rate, topology.mtu, false));
}

void take_over(const SyncOptions& options, Programs& programs, const Topology& topology, Takeover& row) {
  BenchOptions bench = options.bench;
  bench.collective = "sync_state";
  for (std::uint32_t source = 1; source <= row.sources; ++source) bench.hosts.push_back(source);
  bench.hosts.push_back(topology.peers);
  Measured measured = measure(bench, programs, topology, row.bytes);
  row.runs.push_back(measured.median_s());
  row.all.push_back({{"calls", std::move(measured.timing)}, {"lines", std::move(measured.lines)}});
}

void print_sync_head(const SyncOptions& options, const Topology& topology) {
  fmt::print("# {}: {} takes a state over; {}, each the median of {} calls after {}\n", topology.name,
             sim::letter_of(topology.peers), options.runs == 1 ? "1 run" : fmt::format("{} runs", options.runs),
             options.bench.iterations, options.bench.warmup + 1);
  fmt::print("# {:>10} {:>6} {:>9} {:>9} {:>9} {:>9} | {:>9} {:>8} {:>8}\n", "bytes", "sources", "least s", "median s",
             "most s", "Mbit/s", "lines s", "of lines", "of first");
  std::fflush(stdout);
}

void print_takeover(const Takeover& row, const Takeover& first) {
  fmt::print("  {:>10} {:>6} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.1f} | {:>9.3f} {:>8.2f} {:>8.2f}\n", row.bytes,
             row.sources, row.runs.front(), row.median_s(), row.runs.back(), row.bit_per_s() * 1e-6, row.lines_s,
             row.lines_s / row.median_s(), row.bit_per_s() / first.bit_per_s());
  std::fflush(stdout);
}

nlohmann::json takeover_json(const Takeover& row, const Takeover& first) {
  return {{"bytes", row.bytes},
          {"sources", row.sources},
          {"median_s", row.median_s()},
          {"bit_per_s", row.bit_per_s()},
          {"lines_s", row.lines_s},
          {"of_lines", row.lines_s / row.median_s()},
          {"of_first", row.bit_per_s() / first.bit_per_s()},
          {"runs_s", row.runs},
          {"runs", row.all}};
}

// Runs alternate, so that what else the machine does meets all of them alike.
std::vector<Takeover> take_over_in_turn(const SyncOptions& options, Programs& programs, const Topology& topology,
                                        std::uint64_t bytes) {
  std::vector<Takeover> rows;
  for (const std::uint32_t sources : options.sources) {
    rows.push_back({sources, bytes, lines_s_of(topology, sources, bytes), {}, {}});
  }
  for (std::uint32_t run = 0; run < options.runs; ++run) {
    for (Takeover& row : rows) take_over(options, programs, topology, row);
  }
  for (Takeover& row : rows) std::sort(row.runs.begin(), row.runs.end());
  return rows;
}

int show_syncs(SyncOptions options) {
  const Topology topology = must(read_topology(options.topology));
  if (options.bench.congestion_control.empty()) options.bench.congestion_control = topology.congestion;
  needs_two_peers(topology, options.topology);
  const std::uint32_t most = topology.peers - 1;
  if (options.sources.empty()) options.sources = most == 1 ? std::vector{1U} : std::vector{1U, most};
  for (const std::uint32_t sources : options.sources) {
    if (sources <= most) continue;
    throw Failure(kExitUsage, fmt::format("--sources {}: {} has {} peers, and the last is the newcomer", sources,
                                          options.topology, topology.peers));
  }
  const std::unique_ptr<Programs> programs = must(Programs::make());
  if (!options.json) print_sync_head(options, topology);
  nlohmann::json list = nlohmann::json::array();
  for (const std::uint64_t bytes : options.sizes) {
    const std::vector<Takeover> rows = take_over_in_turn(options, *programs, topology, bytes);
    for (const Takeover& row : rows) {
      if (!options.json) print_takeover(row, rows.front());
      list.push_back(takeover_json(row, rows.front()));
    }
  }
  if (options.json) {
    nlohmann::json all = json_head(options.topology, topology);
    all["rows"] = list;
    fmt::print("{}\n", all.dump(2));
  } else {
    fmt::print(
        "# lines: what the sources' lines, and the newcomer's, take for the state in full packets; of first: the rate, "
        "over\n"
        "# that of the first row\n");
  }
  return kExitOk;
}

}  // namespace

Run add_sync(CLI::App& app) {
  CLI::App* command = app.add_subcommand("sync", "the time in which its last peer takes a shared state over");
  auto options = std::make_shared<SyncOptions>();
  options->sizes = {64U << 20U};
  command->add_option("topology", options->topology, "TOML file")->required();
  options->declare(*command);
  command
      ->add_option("-d,--sources", options->sources,
                   "how many of the first peers have the state: 1,4 measures both in turn; default: one, and all")
      ->check(CLI::Range(1, 255))
      ->delimiter(',');
  command->add_option("-r,--runs", options->runs, "of real processes; their median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--congestion-control", options->bench.congestion_control,
                      "of TCP between the peers, instead of the topology's");
  command->add_option("bench", options->bench.more, "after --: more options of `lockstep bench`, such as --stripes 4");
  command->add_flag("-j,--json", options->json,
                    "the same facts as JSON, with each run, and what its lines have carried");
  command->footer(R"(
Runs `lockstep coordinator` on the coordinator's host and `lockstep bench --collective sync_state` on the sources and on the
newcomer, whose memory is changed everywhere before each call.

Example:
  lockstep_wan sync tests/lab/wan/topologies/sources-5.toml --sources 1,4)");
  return [options] { return show_syncs(*options); };
}

}  // namespace lockstep::wan
