// `lockstep_wan yardsticks`: Lockstep, Gloo and Open MPI on one topology.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "sim/cli/usage.h"
#include "tests/lab/wan/bench_flags.h"
#include "tests/lab/wan/commands.h"
#include "tests/lab/wan/failure.h"
#include "tests/lab/wan/limits.h"
#include "tests/lab/wan/yardstick.h"

namespace lockstep::wan {
namespace {

struct YardsticksOptions : BenchFlags {
  std::string topology;
  std::vector<std::string> against = {"gloo", "open-mpi"};
  std::string folder = LOCKSTEP_YARDSTICKS;
  std::uint32_t limit_s = 300;
  bool json = false;

  [[nodiscard]] bool has(Library library) const {
    const std::string word = library == Library::kGloo ? "gloo" : "open-mpi";
    return std::find(against.begin(), against.end(), word) != against.end();
  }
};

constexpr Library kLibraries[] = {Library::kGloo, Library::kOpenMpi};

// A column of a row: the calls, or the reason why there are none.
struct Cell {
  std::string name;
  std::optional<Calls> calls;
  std::string failure;
};

// What a reduce-scatter and an all-gather, both straight from peer to peer, need at least: two hops of the longest way,
// and 2(n-1)/n of the tensor through the slowest line.
double limit_s(const Topology& topology, std::uint64_t bytes) {
  std::int64_t longest_ns = 0;
  for (std::uint32_t from = 1; from <= topology.peers; ++from) {
    for (std::uint32_t to = 1; to <= topology.peers; ++to) {
      if (from != to) longest_ns = std::max(longest_ns, topology.way(from, to).latency.ns);
    }
  }
  return limits(topology, bytes).front().lines.seconds() + nanoseconds(2 * longest_ns).seconds();
}

Calls calls_of_lockstep(const YardsticksOptions& options, const Topology& topology, std::uint64_t bytes) {
  const std::unique_ptr<Programs> programs = must(Programs::make());
  const Measured measured = measure(options.bench, *programs, topology, bytes);
  Calls calls;
  calls.algorithm = measured.timing.value("algorithm", "");
  for (const double us : measured.timing.at("calls_us")) calls.seconds.push_back(us * 1e-6);
  std::sort(calls.seconds.begin(), calls.seconds.end());
  return calls;
}

Calls calls_of(const YardsticksOptions& options, Library library, const Topology& topology, std::uint64_t bytes) {
  YardstickOptions yardstick;
  yardstick.folder = options.folder;
  yardstick.bytes = bytes;
  yardstick.calls = options.bench.iterations;
  yardstick.warmup = options.bench.warmup;
  yardstick.congestion_control = options.bench.congestion_control;
  yardstick.limit = seconds(options.limit_s);
  return run_yardstick(library, yardstick, topology);
}

// A failure of one program is told in its place; the others are measured all the same.
template <typename Measure>
Cell cell_of(const std::string& name, Measure&& measure) {
  Cell cell{name, {}, {}};
  try {
    cell.calls = measure();
  } catch (const Failure& failure) {
    if (failure.code() == kExitInterrupted) throw;
    cell.failure = failure.what();
  }
  return cell;
}

std::string words_of(const Cell& cell) {
  if (!cell.calls) return "-";
  const std::string algorithm = cell.calls->algorithm.empty() ? "" : " " + cell.calls->algorithm;
  return fmt::format("{:.3f} ({:.3f} to {:.3f}){}", cell.calls->median(), cell.calls->seconds.front(),
                     cell.calls->seconds.back(), algorithm);
}

constexpr int kWidths[] = {31, 41, 25};  // of the columns of Lockstep, Gloo and Open MPI

void print_head(const YardsticksOptions& options, const Topology& topology) {
  fmt::print(
      "# {}: {} peers, all-reduce of f32, out of place; seconds of the slowest peer: median of {} calls (least to "
      "most)\n# TCP: {}; MTU {}\n",
      topology.name, topology.peers, options.bench.iterations,
      options.bench.congestion_control.empty() ? "the machine's" : options.bench.congestion_control, topology.mtu);
  fmt::print("# {:>10} {:>8} | {:{}} | {:{}} | {:{}}\n", "bytes", "limit", "Lockstep", kWidths[0], "Gloo", kWidths[1],
             "Open MPI", kWidths[2]);
  std::fflush(stdout);
}

void print_row(std::uint64_t bytes, double limit, const std::vector<Cell>& cells) {
  fmt::print("  {:>10} {:>8.3f}", bytes, limit);
  for (std::size_t i = 0; i < cells.size(); ++i) fmt::print(" | {:{}}", words_of(cells[i]), kWidths[i]);
  fmt::print("\n");
  std::fflush(stdout);
}

nlohmann::json json_of(std::uint64_t bytes, double limit, const std::vector<Cell>& cells) {
  nlohmann::json row = {{"bytes", bytes}, {"limit_s", limit}};
  for (const Cell& cell : cells) {
    nlohmann::json& place = row[cell.name];
    if (!cell.failure.empty()) place["failure"] = cell.failure;
    if (!cell.calls) continue;
    place["calls_s"] = cell.calls->seconds;
    place["median_s"] = cell.calls->median();
    if (!cell.calls->algorithm.empty()) place["algorithm"] = cell.calls->algorithm;
  }
  return row;
}

// Tells of the libraries that are asked for and missing.
std::vector<Library> present(const YardsticksOptions& options) {
  std::vector<Library> there;
  for (const Library library : kLibraries) {
    if (!options.has(library)) continue;
    const auto why = missing(library, options.folder);
    if (why) fmt::print(stderr, "{}: not compared: {}\n", name_of(library), *why);
    if (!why) there.push_back(library);
  }
  return there;
}

std::vector<Cell> measure_row(const YardsticksOptions& options, const std::vector<Library>& there,
                              const Topology& topology, std::uint64_t bytes) {
  std::vector<Cell> cells;
  cells.push_back(cell_of("Lockstep", [&] { return calls_of_lockstep(options, topology, bytes); }));
  for (const Library library : kLibraries) {
    const bool is_there = std::find(there.begin(), there.end(), library) != there.end();
    cells.push_back(is_there ? cell_of(name_of(library), [&] { return calls_of(options, library, topology, bytes); })
                             : Cell{name_of(library), {}, {}});
  }
  return cells;
}

int show_yardsticks(YardsticksOptions options) {
  const Topology topology = must(read_topology(options.topology));
  needs_two_peers(topology, options.topology);
  if (!topology.changes.empty()) throw Failure(kExitUsage, options.topology + ": yardsticks know no [[do]]");
  if (options.bench.congestion_control.empty()) options.bench.congestion_control = topology.congestion;
  options.bench.limit = seconds(options.limit_s);
  const std::vector<Library> there = present(options);
  if (!options.json) print_head(options, topology);
  nlohmann::json rows = nlohmann::json::array();
  bool failed = false;
  for (const std::uint64_t bytes : options.sizes) {
    const std::vector<Cell> cells = measure_row(options, there, topology, bytes);
    const double limit = limit_s(topology, bytes);
    if (!options.json) print_row(bytes, limit, cells);
    rows.push_back(json_of(bytes, limit, cells));
    for (const Cell& cell : cells) {
      if (cell.failure.empty()) continue;
      failed = true;
      fmt::print(stderr, "{}, {} bytes: {}\n", cell.name, bytes, cell.failure);
    }
  }
  if (options.json) {
    nlohmann::json all = json_head(options.topology, topology);
    all["congestion_control"] = options.bench.congestion_control;
    all["rows"] = rows;
    fmt::print("{}\n", all.dump(2));
  } else {
    fmt::print("# limit: two hops of the longest way, and 2(n-1)/n of the tensor through the slowest line\n");
  }
  return failed ? kExitFailed : kExitOk;
}

}  // namespace

Run add_yardsticks(CLI::App& app) {
  CLI::App* command = app.add_subcommand("yardsticks", "the time of an all-reduce, beside Gloo and Open MPI");
  auto options = std::make_shared<YardsticksOptions>();
  options->sizes = {4U << 10U, 1U << 20U, 16U << 20U};
  options->bench.warmup = 2;
  command->add_option("topology", options->topology, "TOML file")->required();
  options->declare(*command);
  command->add_option("--against", options->against, "the other libraries")
      ->delimiter(',')
      ->check(sim::one_of({"gloo", "open-mpi"}))
      ->capture_default_str();
  command->add_option("--yardsticks", options->folder, "folder of the programs that all-reduce with other libraries")
      ->capture_default_str();
  command->add_option("--limit", options->limit_s, "s for each program and size, from its start to its end")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
  command->add_option("--congestion-control", options->bench.congestion_control,
                      "of TCP between the peers, instead of the topology's");
  command->add_option("bench", options->bench.more, "after --: more options of `lockstep bench`, such as --stripes 4");
  command->add_flag("-j,--json", options->json, "the same facts as JSON, with each call");
  command->footer(R"(
Runs Lockstep, Gloo and Open MPI one after the other, each in a box of its own, with the same topology and the same
congestion control. Of Gloo's algorithms the one with the least median counts; its name follows. The column of a library
that is not installed is empty. Ends with 1 when a program failed, a result was wrong, or the time limit was over.

Examples:
  lockstep_wan yardsticks tests/lab/wan/topologies/far-8.toml
  lockstep_wan yardsticks tests/lab/wan/topologies/far-8.toml --size 4KiB,1MiB,16MiB -n 5)");
  return [options] { return show_yardsticks(*options); };
}

}  // namespace lockstep::wan
