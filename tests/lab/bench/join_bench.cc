// The cost of a newcomer for members that train: the time of their steps before it comes, while it fetches the state in
// advance, and of the step in which it is let in. In turns with a newcomer that fetches nothing before it is let in,
// and so takes the whole state over in its first sync, for which everybody waits.
//
// A step: the device computes (nobody uses a core), gradients are all-reduced, a part of the state's pieces changes,
// and flags are agreed on. Processes on one machine, TCP on loopback; the newcomer's own work takes cores that members
// would have, too.
//
// Prints a table, or with --json an object per line.
#include <fmt/core.h>
#include <fmt/format.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/kernels/checksum.h"
#include "lockstep.h"
#include "tests/lab/bench/yardsticks/blackboard.h"
#include "tests/lab/bench/yardsticks/door.h"
#include "tests/lab/bench/yardsticks/processes.h"
#include "tests/lab/bench/yardsticks/times.h"

namespace lockstep::bench {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;

struct JoinBench {
  int members = 2;
  std::uint64_t state_mib = 256;
  std::uint64_t gradient_mib = 16;
  std::uint64_t changed_permille = 10;
  std::int64_t device_ms = 100;
  std::uint64_t rate_mib = 0;  // of each member's pieces, per second
  int rounds = 3;
  int steps_before = 20;
  bool json = false;

  [[nodiscard]] std::size_t pieces() const { return state_mib; }
  [[nodiscard]] std::size_t changed() const { return (pieces() * changed_permille + 999) / 1000; }
};

// Of one run. Seconds are the first member's; all take as long, because they wait for each other.
struct JoinBenchBoard {
  std::array<char, 256> coordinator;
  std::atomic<bool> fetched;
  double before = 0;             // median step
  double during = 0;             // mean step, from the newcomer's arrival until it has fetched
  double publish = 0;            // the step in which the state is copied for it; or 0
  double entry = 0;              // admission and sync
  double lost = 0;               // all that steps took longer, and the entry
  double fetch = 0;              // the newcomer's fetch in advance
  std::uint64_t first_sync = 0;  // bytes that the newcomer received in it
  int steps_during = 0;
};
using Board = Blackboard<JoinBenchBoard>;

void must(lockstep_status status, const char* what) {
  if (status != LOCKSTEP_OK) throw std::runtime_error(std::string(what) + ": " + lockstep_last_error());
}

// Takes so long for its part of a step, and no core.
class Device {
 public:
  explicit Device(std::int64_t ms) : ms_(ms), done_(::timerfd_create(CLOCK_MONOTONIC, 0)) {
    if (done_ < 0) fail("cannot make a timer");
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() { ::close(done_); }

  void compute() const {
    if (ms_ == 0) return;
    const itimerspec at{{}, {ms_ / 1000, ms_ % 1000 * 1'000'000}};
    std::uint64_t times = 0;
    if (::timerfd_settime(done_, 0, &at, nullptr) != 0 || ::read(done_, &times, sizeof times) != sizeof times) {
      fail("cannot wait for a timer");
    }
  }

 private:
  std::int64_t ms_;
  int done_;
};

class JoinBenchPeer {
 public:
  JoinBenchPeer(const JoinBench& bench, int rank, bool prefetches, const Board& board, MeetingPlace& arrival)
      : bench_(bench),
        rank_(rank),
        prefetches_(prefetches),
        board_(board),
        arrival_(arrival),
        device_(bench.device_ms),
        state_(bench.pieces() * kPieceBytes),
        gradient_((bench.gradient_mib << 20U) / sizeof(float), 1.0F),
        mean_(gradient_.size()) {
    lockstep_comm_options options = LOCKSTEP_COMM_OPTIONS_INIT;
    options.founders = static_cast<std::uint32_t>(bench.members);
    options.listen_host = "127.0.0.1";
    options.state_bytes_per_second = bench.rate_mib << 20U;
    lockstep_comm* comm = nullptr;
    must(lockstep_comm_create(&options, &comm), "communicator");
    comm_.reset(comm);
  }

  void be_member() {
    must(lockstep_connect(comm_.get(), board_->coordinator.data(), 60'000), "connect");
    for (std::uint64_t piece = 0; piece < bench_.pieces(); ++piece) write(piece, piece);
    sync(LOCKSTEP_STATE_POPULAR, false);
    for (int i = 0; i < 3; ++i) step();  // opens links, touches pages
    if (prefetches_) {                   // touches those of the copy, too
      publish();
      must(lockstep_unpublish_state(comm_.get(), kState), "unpublish");
    }
    Times before;
    for (int i = 0; i < bench_.steps_before; ++i) before.add(timed([&] { step(); }));
    const double median = before.median();
    if (rank_ == 0) arrival_.meet(0, 0);

    Account account;
    for (bool published = false, waits = false, fetched = false; !fetched;) {
      double took = 0;
      if (waits && prefetches_ && !std::exchange(published, true)) {
        took = timed([&] {
          publish();
          std::tie(waits, fetched) = step();
        });
        account.publish = took;
      } else {
        took = timed([&] { std::tie(waits, fetched) = step(); });
        if (published) {
          account.during += took;
          account.steps += 1;
        }
      }
      fetched = fetched && waits;
      if (waits) account.lost += took - median;
    }
    account.entry = timed([&] {
      must(lockstep_admit(comm_.get(), LOCKSTEP_FOREVER, nullptr), "admit");
      sync(LOCKSTEP_STATE_POPULAR, false);
    });
    finish();
    if (rank_ != 0) return;
    board_->before = median;
    board_->publish = account.publish;
    board_->steps_during = account.steps;
    board_->during = account.steps > 0 ? account.during / account.steps : 0;
    board_->entry = account.entry;
    board_->lost = account.lost + account.entry;
  }

  void be_newcomer() {
    arrival_.meet(1, 0);
    lockstep_work* connecting = nullptr;
    must(lockstep_connect_async(comm_.get(), board_->coordinator.data(), 60'000, &connecting), "connect");
    lockstep_result fetched = LOCKSTEP_RESULT_INIT;
    if (prefetches_) {
      const auto began = Clock::now();
      lockstep_sync_state_args args = args_of(LOCKSTEP_STATE_POPULAR, false);
      must(lockstep_prefetch_state(comm_.get(), &args, &fetched), "prefetch");
      board_->fetch = seconds_since(began);
    }
    board_->fetched = true;
    must(lockstep_wait(connecting, LOCKSTEP_FOREVER, nullptr), "connect");
    lockstep_work_free(connecting);
    board_->first_sync = sync(LOCKSTEP_STATE_RECEIVE_ONLY, !prefetches_);
    finish();
  }

 private:
  struct Destroy {
    void operator()(lockstep_comm* comm) const { lockstep_comm_destroy(comm); }
  };
  struct Account {
    double publish = 0;
    double during = 0;
    double entry = 0;
    double lost = 0;
    int steps = 0;
  };

  static double timed(const std::function<void()>& body) {
    const auto began = Clock::now();
    body();
    return seconds_since(began);
  }

  void write(std::uint64_t piece, std::uint64_t content) {
    std::byte* const at = state_.data() + piece * kPieceBytes;
    for (std::size_t i = 0; i < kPieceBytes; i += sizeof content) std::memcpy(at + i, &content, sizeof content);
  }

  // Whether somebody waits to be let in, and whether the newcomer has fetched all: what one knows all know.
  std::pair<bool, bool> step() {
    device_.compute();
    all_reduce(gradient_.data(), mean_.data(), gradient_.size(), LOCKSTEP_F32, LOCKSTEP_AVG, kGradient);
    step_ += 1;
    for (std::uint64_t i = 0; i < bench_.changed(); ++i) {
      const std::uint64_t which = step_ * bench_.changed() + i;
      write(which % bench_.pieces(), which + bench_.pieces());
    }
    const auto flags = agreed({waiting(), board_->fetched ? 1U : 0U}, LOCKSTEP_MAX);
    return {flags[0] != 0, flags[1] != 0};
  }

  std::uint64_t waiting() {
    std::uint32_t count = 0;
    must(lockstep_pending(comm_.get(), &count), "pending");
    return count;
  }

  void all_reduce(const void* send, void* recv, std::size_t count, lockstep_data_type type, lockstep_op op,
                  std::uint64_t tag) {
    lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
    args.send = send;
    args.recv = recv;
    args.count = count;
    args.type = type;
    args.op = op;
    args.tag = tag;
    must(lockstep_all_reduce(comm_.get(), &args, nullptr), "all-reduce");
  }

  std::array<std::uint64_t, 2> agreed(std::array<std::uint64_t, 2> mine, lockstep_op op) {
    all_reduce(mine.data(), mine.data(), mine.size(), LOCKSTEP_U64, op, kFlags);
    return mine;
  }

  lockstep_sync_state_args args_of(lockstep_state_strategy strategy, bool blank) {
    tensor_ = {"state", state_.data(), state_.size(), LOCKSTEP_U8, 0, 0};
    value_ = {"step", &step_, LOCKSTEP_UINT};
    lockstep_sync_state_args args = LOCKSTEP_SYNC_STATE_ARGS_INIT;
    args.tensors = &tensor_;
    args.tensors_count = 1;
    args.values = &value_;
    args.values_count = 1;
    args.revision = step_;
    args.strategy = strategy;
    args.blank = blank ? 1 : 0;
    args.tag = kState;
    return args;
  }

  // The bytes that came for it.
  std::uint64_t sync(lockstep_state_strategy strategy, bool blank) {
    const lockstep_sync_state_args args = args_of(strategy, blank);
    lockstep_result result = LOCKSTEP_RESULT_INIT;
    must(lockstep_sync_state(comm_.get(), &args, &result), "sync");
    return result.bytes_received;
  }

  void publish() {
    const lockstep_sync_state_args args = args_of(LOCKSTEP_STATE_POPULAR, false);
    must(lockstep_publish_state(comm_.get(), &args), "publish");
  }

  // All, the newcomer too: a step, and nobody's state is another one.
  void finish() {
    step();
    const std::uint64_t mine = checksum(std::span<const std::byte>(state_));
    if (agreed({mine, ~mine}, LOCKSTEP_MIN) != std::array{mine, ~mine}) throw std::runtime_error("states differ");
    must(lockstep_leave(comm_.get(), 10'000), "leave");
  }

  static constexpr std::uint64_t kGradient = 1;
  static constexpr std::uint64_t kFlags = 2;
  static constexpr std::uint64_t kState = 3;

  const JoinBench& bench_;
  const int rank_;
  const bool prefetches_;
  const Board& board_;
  MeetingPlace& arrival_;  // of the first member and the newcomer, when it may come
  Device device_;
  std::unique_ptr<lockstep_comm, Destroy> comm_;
  std::vector<std::byte> state_;
  std::vector<float> gradient_;
  std::vector<float> mean_;
  std::uint64_t step_ = 0;
  lockstep_state_tensor tensor_{};
  lockstep_state_value value_{};
};

void coordinate(const Board& board, MeetingPlace& meeting, int rank) {
  lockstep_coordinator_options options = LOCKSTEP_COORDINATOR_OPTIONS_INIT;
  options.listen = "127.0.0.1:0";
  lockstep_coordinator* coordinator = nullptr;
  must(lockstep_coordinator_start(&options, &coordinator), "coordinator");
  must(lockstep_coordinator_address(coordinator, board->coordinator.data(), board->coordinator.size()), "address");
  meeting.meet(rank, 0);
  meeting.meet(rank, 0);
  lockstep_coordinator_stop(coordinator);
}

struct Row {
  Times before, during, publish, entry, lost, fetch, first_sync_mib;
  int steps = 0;
};

int add_run(const JoinBench& bench, bool prefetches, Row& row) {
  const Board board;
  MeetingPlace meeting(bench.members + 2);
  MeetingPlace arrival(2);
  const int code = run_processes(bench.members + 2, [&](int rank) {
    if (rank == bench.members + 1) return coordinate(board, meeting, rank);
    meeting.meet(rank, 0);  // the coordinator has said where it is
    JoinBenchPeer peer(bench, rank, prefetches, board, arrival);
    rank < bench.members ? peer.be_member() : peer.be_newcomer();
    meeting.meet(rank, 0);
  });
  row.before.add(board->before);
  row.during.add(board->during);
  row.publish.add(board->publish);
  row.entry.add(board->entry);
  row.lost.add(board->lost);
  row.fetch.add(board->fetch);
  row.first_sync_mib.add(static_cast<double>(board->first_sync) / kPieceBytes);
  row.steps += board->steps_during;
  return code;
}

void say(const JoinBench& bench, bool prefetches, const Row& row) {
  if (bench.json) {
    fmt::print(
        "{{\"what\": \"join\", \"prefetch\": {}, \"before\": {}, \"during\": {}, \"publish\": {}, \"entry\": {}, "
        "\"lost\": {}, \"fetch\": {}, \"first_sync_mib\": {}, \"steps_during\": {}}}\n",
        prefetches, row.before.json(), row.during.json(), row.publish.json(), row.entry.json(), row.lost.json(),
        row.fetch.json(), row.first_sync_mib.json(), row.steps);
    return;
  }
  fmt::print("{}: a step takes {}\n", prefetches ? "fetches in advance" : "fetches when it is let in",
             row.before.words());
  if (prefetches) {
    fmt::print("    while it fetches {}: {:.3f} of that, {} steps; bar 1.05\n    the step with the copy {}\n",
               row.during.words(), row.during.median() / row.before.median(), row.steps, row.publish.words());
    fmt::print("    the fetch {}\n", row.fetch.words());
  }
  fmt::print("    admission and first sync {}, {:.0f} MiB\n    lost to members, all in all, {}: {:.1f} steps\n",
             row.entry.words(), row.first_sync_mib.median(), row.lost.words(), row.lost.median() / row.before.median());
}

int run(int argc, char** argv) {
  JoinBench bench;
  CLI::App app("What a newcomer costs those who train, with and without fetching the state in advance.");
  app.add_option("--members", bench.members)->check(CLI::Range(1, 16))->capture_default_str();
  app.add_option("--state-mib", bench.state_mib)->check(CLI::Range(1, 16'384))->capture_default_str();
  app.add_option("--gradient-mib", bench.gradient_mib)->check(CLI::Range(1, 4096))->capture_default_str();
  app.add_option("--changed", bench.changed_permille, "of 1000 pieces, in a step")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.add_option("--device-ms", bench.device_ms, "of each step, in which no core is used")
      ->check(CLI::Range(0, 60'000))
      ->capture_default_str();
  app.add_option("--rate", bench.rate_mib, "MiB per second, which each member gives of its state; 0: no limit")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--rounds", bench.rounds)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--steps", bench.steps_before, "before the newcomer comes")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_flag("-j,--json", bench.json, "the same facts as JSON, an object per line");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& end) {
    return app.exit(end) == 0 ? 0 : 2;
  }
  std::array<Row, 2> rows;
  int code = 0;
  for (int round = 0; round < bench.rounds && code == 0; ++round) {
    for (const bool prefetches : {true, false}) code |= add_run(bench, prefetches, rows.at(prefetches ? 0 : 1));
  }
  if (code != 0) return code;
  say(bench, true, rows[0]);
  say(bench, false, rows[1]);
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::run(argc, argv); }
