// One peer of `lockstep bench`.
#include <fmt/core.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "bindings/cli/api.h"
#include "bindings/cli/bench.h"
#include "bindings/cli/bench_subject.h"
#include "bindings/cli/command.h"
#include "bindings/cli/protection.h"
#include "bindings/cli/size.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Timing {
  double seconds = 0;         // average time of a call
  std::vector<double> calls;  // time of each call
  std::vector<double> each;   // the same, in ascending order
  double retries = 0;         // abandoned attempts of all calls
  double received = 0;        // sync_state: the most bytes that the newcomer received in a call
  std::uint64_t errors = 0;
  lockstep_algorithm algorithm = LOCKSTEP_ALGORITHM_AUTO;  // of the last call; AUTO: it has no choice
  std::vector<std::uint64_t> rates;                        // lockstep_result.rates of the last call
  std::string congestion_control;                          // lockstep_result.congestion_control of the last call
  std::uint32_t streams = 0;                               // the same for lockstep_result.streams
};

struct Row {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::optional<Timing> out;
  std::optional<Timing> in;
};

// The time limit for an answer of a running coordinator.
constexpr double kAnswersWithinSeconds = 10;

class Bench {
 public:
  explicit Bench(const BenchOptions& options) : options_(options) {}

  int run() {
    join();
    if (printing() && !options_.json) print_head();
    std::vector<Row> rows;
    if (!subject_->has_size()) {
      rows.push_back(measure_row(0));
    } else {
      for (std::uint64_t bytes = options_.sizes.begin; bytes <= options_.sizes.end;) {
        rows.push_back(measure_row(bytes));
        if (bytes > options_.sizes.end / options_.sizes.factor) break;
        bytes = bytes == 0 ? subject_->element_bytes() : bytes * options_.sizes.factor;
      }
    }
    std::uint64_t errors = 0;
    for (const Row& row : rows) errors += (row.out ? row.out->errors : 0) + (row.in ? row.in->errors : 0);
    if (printing()) options_.json ? print_json(rows, errors) : print_tail(errors);
    check(lockstep_leave(comm_.get(), 10'000), "leave");
    return errors == 0 ? kExitOk : kExitFailed;
  }

 private:
  [[nodiscard]] bool printing() const { return rank_ == 0; }

  void join() {
    lockstep_comm_options comm_options = LOCKSTEP_COMM_OPTIONS_INIT;
    comm_options.name = "bench";
    comm_options.founders = options_.peers;
    comm_options.stripes = options_.network.stripes;
    comm_options.bytes_per_second = options_.network.bytes_per_second;
    comm_options.segment_bytes = options_.network.segment_bytes;
    if (!options_.network.congestion_control.empty()) {
      comm_options.congestion_control = options_.network.congestion_control.c_str();
    }
    const transport::Protection& protection = options_.network.protection;
    comm_options.insecure = protection.insecure ? 1 : 0;
    const lockstep_certificates certificates = c_certificates(protection.certificates);
    if (!protection.certificates.empty()) comm_options.certificates = &certificates;
    comm_options.spin_us = options_.network.spin_us == 0 ? LOCKSTEP_NO_SPIN : options_.network.spin_us;
    comm_ = create_comm(comm_options);
    // connect would wait for a coordinator as long as for the other peers
    ask_coordinator(options_.coordinator, kAnswersWithinSeconds, protection);
    const auto wait_ms = static_cast<std::int64_t>(options_.network.wait_s * 1000);
    check(lockstep_connect(comm_.get(), options_.coordinator.c_str(), wait_ms), "connect");
    const lockstep_world world = world_of(comm_);
    if (world.world_size != options_.peers) {
      throw Failure(kExitFailed,
                    fmt::format("the run has {} peers, --peers says {}: give the same number to all, and a "
                                "coordinator of their own",
                                world.world_size, options_.peers));
    }
    world_ = world.world_size;
    rank_ = world.rank;
    subject_.emplace(options_, comm_.get(), rank_, world_);
  }

  // ---- agreements between measurements ----

  static constexpr std::uint64_t kControlTag = 1;

  void agree(std::span<double> values, lockstep_op op) {
    lockstep_result result = LOCKSTEP_RESULT_INIT;
    lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
    args.send = values.data();
    args.recv = values.data();
    args.count = values.size();
    args.type = LOCKSTEP_F64;
    args.op = op;
    args.tag = kControlTag;
    check(lockstep_all_reduce(comm_.get(), &args, &result), options_.collective);
  }
  double agree(double value, lockstep_op op) {
    agree(std::span(&value, 1), op);
    return value;
  }

  // ---- one measurement ----

  // The average time of a call, however many calls are in flight.
  Timing time_of(Place place, std::uint32_t iterations, bool warmup = false) {
    if (subject_->is_sync()) return time_of_syncs(iterations, warmup);
    Timing timing;
    timing.calls.reserve(iterations);
    agree(0, LOCKSTEP_MAX);  // all peers start together
    const auto began = Clock::now();
    auto last = began;
    lockstep_result result = LOCKSTEP_RESULT_INIT;
    for (std::uint32_t i = 0; i < iterations; ++i) {
      if (!warmup) say_call(i);
      result = subject_->call(place);
      timing.retries += result.retries;
      const auto now = Clock::now();
      const std::chrono::duration<double> took = now - std::exchange(last, now);
      timing.calls.push_back(took.count() / subject_->parts());
    }
    const std::chrono::duration<double> all = last - began;
    timing.algorithm = result.algorithm;
    timing.congestion_control = result.congestion_control;
    timing.streams = result.streams;
    if (result.rates_count > 0) timing.rates.assign(result.rates, result.rates + result.rates_count);
    timing.seconds = agree(all.count() / iterations / subject_->parts(), LOCKSTEP_MAX);
    settle(timing);
    return timing;
  }

  // The times of the slowest peer.
  void settle(Timing& timing) {
    agree(timing.calls, LOCKSTEP_MAX);
    timing.retries = agree(timing.retries, LOCKSTEP_MAX);
    timing.each = timing.calls;
    std::sort(timing.each.begin(), timing.each.end());
  }

  void say_call(std::uint32_t index) const {
    if (!options_.say_calls || !printing()) return;
    fmt::print(stderr, "call {}\n", index + 1);
    std::fflush(stderr);
  }

  // Measures the newcomer only: the other peers merely send.
  Timing time_of_syncs(std::uint32_t iterations, bool warmup) {
    Timing timing;
    timing.calls.assign(iterations, 0);
    for (std::uint32_t i = 0; i < iterations; ++i) {
      if (subject_->is_newcomer()) subject_->spoil();
      agree(0, LOCKSTEP_MAX);  // all peers start together
      if (!warmup) say_call(i);
      const auto began = Clock::now();
      const lockstep_result result = subject_->call(Place::kIn);
      timing.retries += result.retries;
      if (!subject_->is_newcomer()) continue;
      timing.calls[i] = std::chrono::duration<double>(Clock::now() - began).count();
      timing.received = std::max(timing.received, static_cast<double>(result.bytes_received));
    }
    settle(timing);
    timing.received = agree(timing.received, LOCKSTEP_MAX);
    timing.seconds = std::accumulate(timing.calls.begin(), timing.calls.end(), 0.0) / iterations;
    return timing;
  }

  Timing measure(Place place) {
    constexpr double kTargetSeconds = 0.5;
    // Checks one call with a fresh input; after that the input no longer matters.
    subject_->prepare(place);
    const std::uint64_t errors = subject_->wrong(subject_->call(place));

    std::uint32_t warmup = options_.warmup == 0 ? 2 : options_.warmup;
    const double estimate = time_of(place, warmup, true).seconds * subject_->parts();
    std::uint32_t iterations = options_.iterations;
    if (iterations == 0) {
      iterations = static_cast<std::uint32_t>(std::clamp(kTargetSeconds / std::max(estimate, 1e-7), 4.0, 5000.0));
    }
    Timing timing = time_of(place, iterations);
    timing.errors = static_cast<std::uint64_t>(agree(static_cast<double>(errors), LOCKSTEP_SUM));
    return timing;
  }

  Row measure_row(std::uint64_t bytes) {
    subject_->resize(bytes);
    Row row;
    row.count = subject_->count();
    row.bytes = subject_->bytes();
    if (printing() && ::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\rmeasuring {} ...", size_words(row.bytes));
    if (subject_->works_out_of_place() && options_.only != "in") row.out = measure(Place::kOut);
    subject_->drop_memory_to_send();
    if (subject_->works_in_place() && options_.only != "out") row.in = measure(Place::kIn);
    subject_->drop_memory();
    if (printing() && ::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r{:40}\r", "");
    if (printing() && !options_.json) print_row(row);
    return row;
  }

  // ---- output ----

  void print_head() const {
    const bool native =
        options_.encoding.up == "native" && options_.encoding.down == "native" && options_.encoding.algorithm == "auto";
    const std::string algorithm = options_.encoding.algorithm == "auto" ? "" : ", " + options_.encoding.algorithm;
    fmt::print(
        "# lockstep {}, {}{}, {} peers; time of the {}; errors: elements, all peers together\n",
        lockstep_version_string(), options_.collective,
        native ? "" : fmt::format(" ({} up, {} down{})", options_.encoding.up, options_.encoding.down, algorithm),
        world_, subject_->is_sync() ? "newcomer" : "slowest peer");
    fmt::print("# {:>12} {:>12} {:>5} {:>5} | {:^37} | {:^37}\n", "", "", "", "", "out of place", "in place");
    fmt::print("# {:>12} {:>12} {:>5} {:>5} | {:>11} {:>8} {:>8} {:>7} | {:>11} {:>8} {:>8} {:>7}\n", "bytes", "count",
               "type", "op", "time us", "algbw", "busbw", "errors", "time us", "algbw", "busbw", "errors");
    std::fflush(stdout);
  }

  void print_timing(const Row& row, const std::optional<Timing>& timing) const {
    if (!timing) return fmt::print(" | {:>11} {:>8} {:>8} {:>7}", "-", "-", "-", "-");
    const double algorithm = static_cast<double>(row.bytes) / timing->seconds * 1e-9;
    fmt::print(" | {:>11.1f} {:>8.3f} {:>8.3f} {:>7}", timing->seconds * 1e6, algorithm,
               algorithm * subject_->bus_factor(), timing->errors);
  }

  void print_row(const Row& row) const {
    fmt::print("  {:>12} {:>12} {:>5} {:>5}", row.bytes, row.count, options_.type,
               subject_->folds() ? options_.op : "-");
    print_timing(row, row.out);
    print_timing(row, row.in);
    fmt::print("{}\n", way_of(row.out ? *row.out : *row.in));
    std::fflush(stdout);
  }

  // Which way the bytes have gone, as the model chose; behind the row.
  static std::string way_of(const Timing& timing) {
    if (timing.algorithm == LOCKSTEP_ALGORITHM_AUTO) return {};
    std::string way = std::string(" | ") + lockstep_algorithm_name(timing.algorithm);
    if (!timing.congestion_control.empty())
      way +=
          fmt::format(", {} stream{} of {}", timing.streams, timing.streams == 1 ? "" : "s", timing.congestion_control);
    if (timing.rates.empty()) return way;
    const auto [slowest, fastest] = std::ranges::minmax(timing.rates);
    if (fastest == 0) return way + ", lines not known yet";
    return way + fmt::format(", lines of {:.0f} to {:.0f} Mbit/s", static_cast<double>(slowest) * 8e-6,
                             static_cast<double>(fastest) * 8e-6);
  }

  static void print_tail(std::uint64_t errors) {
    fmt::print("# bandwidth in GB/s (10^9 bytes); {}\n",
               errors == 0 ? "all results are right" : fmt::format("{} ELEMENTS ARE WRONG", errors));
  }

  [[nodiscard]] nlohmann::json json_of(const Row& row, const std::optional<Timing>& timing) const {
    if (!timing) return nullptr;
    const double algorithm = static_cast<double>(row.bytes) / timing->seconds * 1e-9;
    nlohmann::json j = {{"time_us", timing->seconds * 1e6},
                        {"algbw_gb_per_s", algorithm},
                        {"busbw_gb_per_s", algorithm * subject_->bus_factor()},
                        {"median_us", timing->each[timing->each.size() / 2] * 1e6},
                        {"least_us", timing->each.front() * 1e6},
                        {"most_us", timing->each.back() * 1e6},
                        {"errors", timing->errors},
                        {"retries", static_cast<std::uint64_t>(timing->retries)},
                        {"calls_us", nlohmann::json::array()},
                        {"iterations", timing->each.size()}};
    for (const double seconds : timing->calls) j["calls_us"].push_back(seconds * 1e6);
    if (timing->algorithm != LOCKSTEP_ALGORITHM_AUTO) j["algorithm"] = lockstep_algorithm_name(timing->algorithm);
    if (!timing->congestion_control.empty()) {
      j["congestion_control"] = timing->congestion_control;
      j["streams"] = timing->streams;
    }
    if (!timing->rates.empty()) j["rates_bytes_per_s"] = timing->rates;
    if (subject_->is_sync()) j["received_bytes"] = static_cast<std::uint64_t>(timing->received);
    return j;
  }

  void print_json(const std::vector<Row>& rows, std::uint64_t errors) const {
    nlohmann::json j = {{"version", 1},
                        {"lockstep", lockstep_version_string()},
                        {"collective", options_.collective},
                        {"peers", world_},
                        {"tensors", options_.tensors},
                        {"in_flight", options_.in_flight},
                        {"type", options_.type},
                        {"up", options_.encoding.up},
                        {"down", options_.encoding.down},
                        {"algorithm", options_.encoding.algorithm},
                        {"residual", options_.encoding.residual},
                        {"op", subject_->folds() ? nlohmann::json(options_.op) : nlohmann::json()},
                        {"errors", errors},
                        {"rows", nlohmann::json::array()}};
    for (const Row& row : rows) {
      j["rows"].push_back({{"bytes", row.bytes},
                           {"count", row.count},
                           {"out_of_place", json_of(row, row.out)},
                           {"in_place", json_of(row, row.in)}});
    }
    fmt::print("{}\n", j.dump(2));
    std::fflush(stdout);
  }

  const BenchOptions& options_;
  Comm comm_;
  std::uint32_t world_ = 1;
  std::uint32_t rank_ = 0;
  std::optional<BenchSubject> subject_;
};

}  // namespace

int bench_as_peer(const BenchOptions& options) { return Bench(options).run(); }

}  // namespace lockstep::cli
