// One peer of `lockstep bench`.
#include <fmt/core.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "bindings/cli/api.h"
#include "bindings/cli/bench.h"
#include "bindings/cli/command.h"
#include "bindings/cli/pattern.h"
#include "bindings/cli/size.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

enum class Collective { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kBarrier, kSyncState };
enum class Place { kOut, kIn };

// Names are checked by the parser.
Collective collective_of(std::string_view name) {
  if (name == "reduce_scatter") return Collective::kReduceScatter;
  if (name == "all_gather") return Collective::kAllGather;
  if (name == "broadcast") return Collective::kBroadcast;
  if (name == "barrier") return Collective::kBarrier;
  if (name == "sync_state") return Collective::kSyncState;
  return Collective::kAllReduce;
}

lockstep_data_type type_of(std::string_view name) {
  int number = LOCKSTEP_U8;
  while (name != lockstep_data_type_name(static_cast<lockstep_data_type>(number)) && number < LOCKSTEP_F64) ++number;
  return static_cast<lockstep_data_type>(number);
}

lockstep_op op_of(std::string_view name) {
  int number = LOCKSTEP_SUM;
  while (name != lockstep_op_name(static_cast<lockstep_op>(number)) && number < LOCKSTEP_MAX) ++number;
  return static_cast<lockstep_op>(number);
}

// A tensor's memory, aligned to a page; its pages are touched, so that no measurement pays for that.
class Memory {
 public:
  explicit Memory(std::size_t bytes)
      : data_(static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), kPage))), bytes_(bytes) {
    std::fill_n(data_.get(), bytes, std::byte{0});
  }
  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::span<std::byte> span(std::size_t bytes) const { return {data_.get(), bytes}; }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  static constexpr std::align_val_t kPage{4096};
  struct Delete {
    void operator()(std::byte* p) const { ::operator delete(p, kPage); }
  };
  std::unique_ptr<std::byte, Delete> data_;
  std::size_t bytes_;
};

struct Timing {
  double seconds = 0;        // of a call, on the average
  std::vector<double> each;  // of every call, from the shortest
  double received = 0;       // sync_state: bytes, by the newcomer in a call, at most
  std::uint64_t errors = 0;
};

struct Row {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::optional<Timing> out;
  std::optional<Timing> in;
};

class Bench {
 public:
  explicit Bench(const BenchOptions& options)
      : options_(options),
        collective_(collective_of(options.collective)),
        type_(type_of(options.type)),
        op_(op_of(options.op)),
        element_(lockstep_data_type_size(type_)) {}

  int run() {
    join();
    if (printing() && !options_.json) print_head();
    std::vector<Row> rows;
    if (collective_ == Collective::kBarrier) {
      rows.push_back(measure_row(0));
    } else {
      for (std::uint64_t bytes = options_.begin; bytes <= options_.end;) {
        rows.push_back(measure_row(bytes));
        if (bytes > options_.end / options_.factor) break;
        bytes = bytes == 0 ? element_ : bytes * options_.factor;
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
  // Of sync_state: holds no state when a call begins.
  [[nodiscard]] bool is_newcomer() const { return rank_ + 1 == world_; }

  void join() {
    lockstep_comm_options comm_options = LOCKSTEP_COMM_OPTIONS_INIT;
    comm_options.name = "bench";
    comm_options.founders = options_.peers;
    comm_options.stripes = options_.stripes;
    comm_options.segment_bytes = options_.segment_bytes;
    if (!options_.congestion_control.empty()) {
      comm_options.congestion_control = options_.congestion_control.c_str();
    }
    comm_options.spin_us = options_.spin_us == 0 ? LOCKSTEP_NO_SPIN : options_.spin_us;
    comm_ = create_comm(comm_options);
    const auto wait_ms = static_cast<std::int64_t>(options_.wait_s * 1000);
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
  }

  // ---- one call ----

  void must_be_whole(lockstep_status status, const lockstep_result& result) const {
    check(status, options_.collective);
    if (result.world_size != world_) {
      throw Failure(kExitFailed, fmt::format("a peer was lost: {} of {} are left", result.world_size, world_));
    }
  }

  lockstep_result call(Place place, std::uint64_t count) {
    lockstep_result result = LOCKSTEP_RESULT_INIT;
    lockstep_comm* const comm = comm_.get();
    lockstep_status status = LOCKSTEP_OK;
    std::byte* const recv = recv_->data();
    switch (collective_) {
      case Collective::kAllReduce: {
        lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
        args.send = place == Place::kIn ? recv : send_->data();
        args.recv = recv;
        args.count = count;
        args.type = type_;
        args.op = op_;
        status = lockstep_all_reduce(comm, &args, &result);
        break;
      }
      case Collective::kReduceScatter: {
        lockstep_reduce_scatter_args args = LOCKSTEP_REDUCE_SCATTER_ARGS_INIT;
        args.send = send_->data();
        args.recv = recv;
        args.count = count;
        args.recv_capacity = recv_->size() / element_;
        args.type = type_;
        args.op = op_;
        status = lockstep_reduce_scatter(comm, &args, &result);
        break;
      }
      case Collective::kAllGather: {
        const std::uint64_t own = count / world_;
        lockstep_all_gather_args args = LOCKSTEP_ALL_GATHER_ARGS_INIT;
        args.send = place == Place::kIn ? recv + rank_ * own * element_ : send_->data();
        args.recv = recv;
        args.send_count = own;
        args.recv_capacity = recv_->size() / element_;
        args.type = type_;
        status = lockstep_all_gather(comm, &args, &result);
        break;
      }
      case Collective::kBroadcast: {
        lockstep_broadcast_args args = LOCKSTEP_BROADCAST_ARGS_INIT;
        args.data = recv;
        args.count = count;
        args.root = root_;
        args.type = type_;
        status = lockstep_broadcast(comm, &args, &result);
        break;
      }
      case Collective::kBarrier: status = lockstep_barrier(comm, nullptr, &result); break;
      case Collective::kSyncState: {
        lockstep_state_tensor tensor{};
        tensor.name = "state";
        tensor.data = recv;
        tensor.count = count;
        tensor.type = type_;
        lockstep_sync_state_args args = LOCKSTEP_SYNC_STATE_ARGS_INIT;
        args.tensors = &tensor;
        args.tensors_count = 1;
        args.strategy = is_newcomer() ? LOCKSTEP_STATE_RECEIVE_ONLY : LOCKSTEP_STATE_POPULAR;
        args.blank = is_newcomer() ? 1 : 0;
        status = lockstep_sync_state(comm, &args, &result);
        break;
      }
    }
    must_be_whole(status, result);
    return result;
  }

  // ---- what the peers tell each other between measurements ----

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
    must_be_whole(lockstep_all_reduce(comm_.get(), &args, &result), result);
  }
  double agree(double value, lockstep_op op) {
    agree(std::span(&value, 1), op);
    return value;
  }

  // ---- one measurement ----

  Timing time_of(Place place, std::uint64_t count, std::uint32_t iterations) {
    if (collective_ == Collective::kSyncState) return time_of_syncs(count, iterations);
    Timing timing;
    timing.each.reserve(iterations);
    agree(0, LOCKSTEP_MAX);  // all start together
    const auto began = Clock::now();
    auto last = began;
    for (std::uint32_t i = 0; i < iterations; ++i) {
      call(place, count);
      const auto now = Clock::now();
      timing.each.push_back(std::chrono::duration<double>(now - std::exchange(last, now)).count());
    }
    timing.seconds = agree(std::chrono::duration<double>(last - began).count() / iterations, LOCKSTEP_MAX);
    agree(timing.each, LOCKSTEP_MAX);
    std::sort(timing.each.begin(), timing.each.end());
    return timing;
  }

  // The newcomer's time alone counts: the others have nothing to do but to send.
  Timing time_of_syncs(std::uint64_t count, std::uint32_t iterations) {
    Timing timing;
    timing.each.assign(iterations, 0);
    for (double& seconds : timing.each) {
      if (is_newcomer()) spoil();
      agree(0, LOCKSTEP_MAX);  // all start together
      const auto began = Clock::now();
      const lockstep_result result = call(Place::kIn, count);
      if (!is_newcomer()) continue;
      seconds = std::chrono::duration<double>(Clock::now() - began).count();
      timing.received = std::max(timing.received, static_cast<double>(result.bytes_received));
    }
    agree(timing.each, LOCKSTEP_MAX);
    timing.received = agree(timing.received, LOCKSTEP_MAX);
    timing.seconds = std::accumulate(timing.each.begin(), timing.each.end(), 0.0) / iterations;
    std::sort(timing.each.begin(), timing.each.end());
    return timing;
  }

  // Nothing in recv_ is right any more.
  void spoil() { std::fill_n(recv_->data(), recv_->size(), std::byte{0xa5}); }

  void fill(Place place, std::uint64_t count) {
    const Pattern pattern(type_, op_, world_);
    switch (collective_) {
      case Collective::kAllReduce:
      case Collective::kReduceScatter:
        return pattern.fill((place == Place::kIn ? recv_ : send_)->span(count * element_), rank_);
      case Collective::kAllGather: {
        const std::uint64_t own = count / world_;
        if (place == Place::kOut) return pattern.fill(send_->span(own * element_), rank_);
        return pattern.fill(recv_->span(count * element_).subspan(rank_ * own * element_, own * element_), rank_);
      }
      case Collective::kBroadcast: return pattern.fill(recv_->span(count * element_), rank_);
      case Collective::kBarrier: return;
      case Collective::kSyncState:
        if (!is_newcomer()) pattern.fill(recv_->span(count * element_), 0);
        return;
    }
  }

  [[nodiscard]] std::uint64_t wrong(const lockstep_result& result, std::uint64_t count) const {
    const Pattern pattern(type_, op_, world_);
    switch (collective_) {
      case Collective::kAllReduce: return pattern.wrong_in_fold(recv_->span(count * element_));
      case Collective::kReduceScatter:
        return pattern.wrong_in_fold(recv_->span(result.chunk_count * element_), result.chunk_begin);
      case Collective::kAllGather: {
        const std::size_t block = count / world_ * element_;
        std::uint64_t errors = 0;
        for (std::uint32_t rank = 0; rank < world_; ++rank) {
          errors += pattern.wrong_in_copy(recv_->span(count * element_).subspan(rank * block, block), rank);
        }
        return errors;
      }
      case Collective::kBroadcast:
      case Collective::kSyncState: return pattern.wrong_in_copy(recv_->span(count * element_), 0);
      case Collective::kBarrier: return 0;
    }
    return 0;
  }

  Timing measure(Place place, std::uint64_t count) {
    constexpr double kTargetSeconds = 0.5;
    // A fresh input and one call to check; then the input no longer matters.
    spoil();
    fill(place, count);
    const std::uint64_t errors = wrong(call(place, count), count);

    std::uint32_t warmup = options_.warmup == 0 ? 2 : options_.warmup;
    const double estimate = time_of(place, count, warmup).seconds;
    std::uint32_t iterations = options_.iterations;
    if (iterations == 0) {
      iterations = static_cast<std::uint32_t>(std::clamp(kTargetSeconds / std::max(estimate, 1e-7), 4.0, 5000.0));
    }
    Timing timing = time_of(place, count, iterations);
    timing.errors = static_cast<std::uint64_t>(agree(static_cast<double>(errors), LOCKSTEP_SUM));
    return timing;
  }

  Row measure_row(std::uint64_t bytes) {
    Row row;
    row.count = bytes / element_;
    if (collective_ == Collective::kAllGather) row.count = row.count / world_ * world_;
    row.bytes = row.count * element_;
    if (printing() && ::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\rmeasuring {} ...", size_words(row.bytes));

    const bool only_in = collective_ == Collective::kBroadcast || collective_ == Collective::kSyncState;
    const bool needs_send = !only_in && collective_ != Collective::kBarrier;
    recv_.emplace(row.bytes);
    if (needs_send) send_.emplace(row.bytes);
    lockstep_peer_id first{};
    std::size_t members = 0;
    check(lockstep_member_ids(comm_.get(), 0, &first, 1, &members, nullptr), "members");
    root_ = first;

    if (!only_in && options_.only != "in") row.out = measure(Place::kOut, row.count);
    send_.reset();
    if (collective_ != Collective::kReduceScatter && collective_ != Collective::kBarrier && options_.only != "out") {
      row.in = measure(Place::kIn, row.count);
    }
    recv_.reset();
    if (printing() && ::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r{:40}\r", "");
    if (printing() && !options_.json) print_row(row);
    return row;
  }

  // ---- what is printed ----

  [[nodiscard]] double bus_factor() const {
    const double n = world_;
    switch (collective_) {
      case Collective::kAllReduce: return 2 * (n - 1) / n;
      case Collective::kReduceScatter:
      case Collective::kAllGather: return (n - 1) / n;
      case Collective::kBroadcast:
      case Collective::kSyncState: return 1;
      case Collective::kBarrier: return 0;
    }
    return 0;
  }
  [[nodiscard]] bool folds() const {
    return collective_ == Collective::kAllReduce || collective_ == Collective::kReduceScatter;
  }

  void print_head() const {
    fmt::print("# lockstep {}, {}, {} peers; time of the {}; errors: elements, all peers together\n",
               lockstep_version_string(), options_.collective, world_,
               collective_ == Collective::kSyncState ? "newcomer" : "slowest peer");
    fmt::print("# {:>12} {:>12} {:>5} {:>5} | {:^37} | {:^37}\n", "", "", "", "", "out of place", "in place");
    fmt::print("# {:>12} {:>12} {:>5} {:>5} | {:>11} {:>8} {:>8} {:>7} | {:>11} {:>8} {:>8} {:>7}\n", "bytes", "count",
               "type", "op", "time us", "algbw", "busbw", "errors", "time us", "algbw", "busbw", "errors");
    std::fflush(stdout);
  }

  void print_timing(const Row& row, const std::optional<Timing>& timing) const {
    if (!timing) return fmt::print(" | {:>11} {:>8} {:>8} {:>7}", "-", "-", "-", "-");
    const double algorithm = static_cast<double>(row.bytes) / timing->seconds * 1e-9;
    fmt::print(" | {:>11.1f} {:>8.3f} {:>8.3f} {:>7}", timing->seconds * 1e6, algorithm, algorithm * bus_factor(),
               timing->errors);
  }

  void print_row(const Row& row) const {
    fmt::print("  {:>12} {:>12} {:>5} {:>5}", row.bytes, row.count, options_.type, folds() ? options_.op : "-");
    print_timing(row, row.out);
    print_timing(row, row.in);
    fmt::print("\n");
    std::fflush(stdout);
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
                        {"busbw_gb_per_s", algorithm * bus_factor()},
                        {"median_us", timing->each[timing->each.size() / 2] * 1e6},
                        {"least_us", timing->each.front() * 1e6},
                        {"most_us", timing->each.back() * 1e6},
                        {"errors", timing->errors},
                        {"iterations", timing->each.size()}};
    if (collective_ == Collective::kSyncState) j["received_bytes"] = static_cast<std::uint64_t>(timing->received);
    return j;
  }

  void print_json(const std::vector<Row>& rows, std::uint64_t errors) const {
    nlohmann::json j = {{"version", 1},
                        {"lockstep", lockstep_version_string()},
                        {"collective", options_.collective},
                        {"peers", world_},
                        {"type", options_.type},
                        {"op", folds() ? nlohmann::json(options_.op) : nlohmann::json()},
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
  const Collective collective_;
  const lockstep_data_type type_;
  const lockstep_op op_;
  const std::size_t element_;
  Comm comm_;
  std::uint32_t world_ = 1;
  std::uint32_t rank_ = 0;
  lockstep_peer_id root_{};
  std::optional<Memory> send_;
  std::optional<Memory> recv_;
};

}  // namespace

int bench_as_peer(const BenchOptions& options) { return Bench(options).run(); }

}  // namespace lockstep::cli
