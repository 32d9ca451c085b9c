// `lockstep_wan compare`: what `lockstep sim predict` says of a topology, beside what real processes take on it.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "sim/cli/command.h"
#include "sim/predict/predict.h"
#include "tests/lab/wan/as_scenario.h"
#include "tests/lab/wan/bench_flags.h"
#include "tests/lab/wan/commands.h"
#include "tests/lab/wan/failure.h"
#include "tests/lab/wan/measurement.h"

namespace lockstep::wan {
namespace {

struct CompareOptions : BenchFlags {
  std::vector<std::string> topologies;
  std::uint32_t runs = 3;
  double equal_percent = 15;
  double unequal_percent = 25;
  bool json = false;
};

struct Comparison {
  std::string name;  // of the file
  Topology topology;
  std::uint64_t bytes = 0;
  std::vector<double> runs;  // the median of each, in seconds, sorted
  double predicted = 0;
  double most_percent = 0;

  // Of an even number the mean of the two in the middle.
  [[nodiscard]] double real() const { return (runs[(runs.size() - 1) / 2] + runs[runs.size() / 2]) / 2; }
  [[nodiscard]] double error_percent() const { return (predicted / real() - 1) * 100; }
  [[nodiscard]] bool within() const { return std::abs(error_percent()) <= most_percent; }
};

double predicted_s(const std::string& path, const std::string& text, std::uint32_t mtu, std::uint64_t bytes) {
  const Result<sim::Plan> plan = as_plan(text, bytes);
  if (!plan) throw Failure(kExitUsage, path + ", as a scenario: " + plan.error().text);
  const auto prediction = sim::predict(*plan, mtu);
  if (!prediction) throw Failure(kExitFailed, path + ": no prediction: " + prediction.error().text);
  return prediction->collectives.at(0).again.seconds();
}

void print_comparison_head(const CompareOptions& options) {
  fmt::print(
      "# all-reduce of f32: real processes ({}, each the median of {} calls after {}), and `lockstep sim predict`\n",
      options.runs == 1 ? "1 run" : fmt::format("{} runs", options.runs), options.bench.iterations,
      options.bench.warmup);
  fmt::print("# {:14} {:>10} {:>9} {:>9} {:>9} {:>11} {:>8} {:>6}\n", "topology", "bytes", "least s", "median s",
             "most s", "predicted s", "error", "allowed");
  std::fflush(stdout);
}

void print_comparison(const Comparison& row) {
  fmt::print("  {:14} {:>10} {:>9.3f} {:>9.3f} {:>9.3f} {:>11.3f} {:>+6.1f} % {:>4.0f} %{}\n", row.name, row.bytes,
             row.runs.front(), row.real(), row.runs.back(), row.predicted, row.error_percent(), row.most_percent,
             row.within() ? "" : "  too far");
  std::fflush(stdout);
}

nlohmann::json comparison_json(const Comparison& row) {
  return {{"topology", row.name},
          {"bytes", row.bytes},
          {"equal_hosts", has_equal_hosts(row.topology)},
          {"runs_s", row.runs},
          {"real_s", row.real()},
          {"predicted_s", row.predicted},
          {"error_percent", row.error_percent()},
          {"allowed_percent", row.most_percent},
          {"within", row.within()}};
}

// Reports errors of files, and predicts all times, before a program runs.
std::vector<Comparison> predictions(const CompareOptions& options) {
  std::vector<Comparison> rows;
  for (const std::string& path : options.topologies) {
    const Topology topology = must(read_topology(path));
    const std::string text = sim::read_text(path);
    needs_two_peers(topology, path);
    if (!topology.changes.empty()) throw Failure(kExitUsage, path + ": predictions know no [[do]]");
    for (const std::uint64_t bytes : options.sizes) {
      Comparison row;
      row.name = std::filesystem::path(path).stem().string();
      row.topology = topology;
      row.bytes = bytes;
      row.most_percent = has_equal_hosts(topology) ? options.equal_percent : options.unequal_percent;
      row.predicted = predicted_s(path, text, topology.mtu, bytes);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

void run_peers(const CompareOptions& options, Programs& programs, Comparison& row) {
  BenchOptions bench = options.bench;
  bench.congestion_control = row.topology.congestion;
  for (std::uint32_t run = 0; run < options.runs; ++run) {
    row.runs.push_back(measure(bench, programs, row.topology, row.bytes).median_s());
  }
  std::sort(row.runs.begin(), row.runs.end());
}

int compare(const CompareOptions& options) {
  std::vector<Comparison> rows = predictions(options);
  const std::unique_ptr<Programs> programs = must(Programs::make());
  if (!options.json) print_comparison_head(options);
  for (Comparison& row : rows) {
    run_peers(options, *programs, row);
    if (!options.json) print_comparison(row);
  }
  const auto far = std::count_if(rows.begin(), rows.end(), [](const Comparison& row) { return !row.within(); });
  if (options.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const Comparison& row : rows) list.push_back(comparison_json(row));
    fmt::print(
        "{}\n",
        nlohmann::json{
            {"version", 1}, {"calls", options.bench.iterations}, {"warmup", options.bench.warmup}, {"rows", list}}
            .dump(2));
  } else {
    fmt::print("# {} of {} within what is allowed\n", rows.size() - static_cast<std::size_t>(far), rows.size());
  }
  return far == 0 ? kExitOk : kExitFailed;
}

}  // namespace

Run add_compare(CLI::App& app) {
  CLI::App* command = app.add_subcommand("compare", "what `lockstep sim predict` says, beside real processes");
  auto options = std::make_shared<CompareOptions>();
  command->add_option("topologies", options->topologies, "TOML files")->required();
  options->declare(*command);
  command->add_option("-r,--runs", options->runs, "of real processes; their median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--equal", options->equal_percent, "how far off it may be where all hosts are alike, in percent")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--unequal", options->unequal_percent, "and where they are not")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("-j,--json", options->json, "the same facts as JSON");
  command->footer(R"(
Ends with 1 when one of them is further off than it may be.

Example:
  lockstep_wan compare tests/lab/wan/topologies/even-*.toml tests/lab/wan/topologies/mixed-*.toml)");
  return [options] { return compare(*options); };
}

}  // namespace lockstep::wan
