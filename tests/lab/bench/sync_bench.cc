// How fast a shared state is taken over, over TCP on loopback, processes on one machine. Three questions:
//
// takeover   one newcomer takes the whole state from 1, 2 and 3 members, in turns with as many plain TCP streams
// between the same
//            processes: whoever has a share writes it from memory, the newcomer reads it into the same memory. Nothing is digested there.
// changes    a hundredth of the pieces differ: which part of the state goes through the sockets, all messages included.
// equal      all hold the same: the call beside digesting alone, by all at once, and digesting on one core beside
// reading on one core.
//
// Prints a line per measurement, or with --json an object per line: medians, and the least and the most.
#include <fmt/core.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/kernels/run_job.h"
#include "core/wire/limits.h"
#include "tests/lab/bench/yardsticks/blackboard.h"
#include "tests/lab/bench/yardsticks/door.h"
#include "tests/lab/bench/yardsticks/processes.h"
#include "tests/lab/bench/yardsticks/times.h"
#include "transport/communicator.h"
#include "transport/coordinator_server.h"

namespace lockstep::bench {
namespace {

struct SyncBench {
  std::uint64_t mib = 1024;
  int rounds = 5;
  std::vector<int> members = {1, 2, 3};
  int streams = 2;  // of plain TCP, from each member: Lockstep's default
  bool staged = false;
  bool json = false;
  std::string only = "all";

  [[nodiscard]] std::size_t bytes() const { return mib << 20U; }
};

struct SyncBenchBoard {
  std::array<char, 256> coordinator;
  std::array<double, MeetingPlace::kMostProcesses> cpu_seconds;
};

double cpu_seconds_of_process() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// ---- one process of a run: rank 0 takes the state, those after it have it, the last is the coordinator ----

class SyncBenchPeer {
 public:
  SyncBenchPeer(const SyncBench& bench, int rank, int members, MeetingPlace& meeting, const std::vector<Door>& doors,
                const Blackboard<SyncBenchBoard>& board)
      : bench_(bench),
        rank_(rank),
        members_(members),
        meeting_(meeting),
        board_(board),
        streams_per_member_(bench.streams),
        memory_(bench.bytes()) {
    for (std::size_t at = 0; at < memory_.size(); at += sizeof at) std::memcpy(memory_.data() + at, &at, sizeof at);
    open_streams(doors);
    transport::CommunicatorOptions options;
    options.listen_host = "127.0.0.1";
    options.peer.founders = static_cast<std::uint32_t>(members + 1);
    auto made = transport::Communicator::create(options);
    if (!made.ok()) throw std::runtime_error(made.error().text);
    comm_ = std::move(*made);
    meet();  // the coordinator has said where it is
    finish("connect", comm_->connect(board->coordinator.data()));
  }
  SyncBenchPeer(const SyncBenchPeer&) = delete;
  SyncBenchPeer& operator=(const SyncBenchPeer&) = delete;
  ~SyncBenchPeer() {
    for (const int stream : streams_) ::close(stream);
  }

  void meet() { meeting_.meet(rank_, 0); }
  [[nodiscard]] bool takes() const { return rank_ == 0; }
  [[nodiscard]] std::uint64_t traffic() const { return comm_->traffic().received; }
  [[nodiscard]] std::span<std::byte> memory() { return memory_; }

  // Every so-many-th piece is another one than the members'. All are what they were after a sync.
  void change_pieces(std::size_t every) {
    if (!takes()) return;
    for (std::size_t at = 0; at < memory_.size(); at += every * kStatePieceBytes) memory_[at] ^= std::byte{1};
  }

  // All meet, and `body` takes so long: on rank 0, or on the slowest.
  double time(const std::function<void()>& body, bool slowest = false) {
    meet();
    const auto began = Clock::now();
    const double cpu = cpu_seconds_of_process();
    body();
    const double mine = seconds_since(began);
    board_->cpu_seconds.at(static_cast<std::size_t>(rank_)) = cpu_seconds_of_process() - cpu;
    return meeting_.meet(rank_, takes() || slowest ? mine : 0);
  }
  // Of all peers together, in what was timed last.
  [[nodiscard]] double cpu_seconds() const {
    double sum = 0;
    for (int rank = 0; rank <= members_; ++rank) sum += board_->cpu_seconds.at(static_cast<std::size_t>(rank));
    return sum;
  }

  // `blank`: rank 0 says that it holds no state. `unchanged`: the members say that nothing has changed since the last
  // sync.
  struct Said {
    bool blank = false;
    bool unchanged = false;
  };
  void sync() { sync({}); }
  void sync(Said said) {
    auto statement = std::make_shared<state::Statement>();
    statement->manifest.tensors.push_back({"state", DataType::kU8, memory_.size(), false});
    statement->strategy = takes() ? state::Strategy::kReceiveOnly : state::Strategy::kPopular;
    statement->staged = bench_.staged;
    statement->blank = takes() && said.blank;
    if (!takes() && said.unchanged) statement->unchanged = {0};
    transport::LaunchArgs args;
    args.collective = wire::Collective::kSync;
    args.state = std::move(statement);
    args.tensors.push_back({nullptr, memory_.data(), memory_.size(), memory_.size()});
    const auto work = comm_->launch(args, transport::Communicator::Then::kWait);
    if (!work.ok()) throw std::runtime_error(work.error().text);
    work->wait();
    finish("sync", *work);
  }

  // The kernel that a sync digests with, over the same pieces, in one thread.
  void digest_all() {
    for (std::size_t at = 0; at < memory_.size(); at += kStatePieceBytes) {
      const auto piece =
          std::span<const std::byte>(memory_).subspan(at, std::min<std::size_t>(kStatePieceBytes, memory_.size() - at));
      kept_ ^= run_job(DigestJob{}, {}, piece, {}).digest.low;
    }
  }

  void read_all() {
    const std::byte* const bytes = memory_.data();
    std::array<std::uint64_t, 16> sums{};
    for (std::size_t at = 0; at + sizeof sums <= memory_.size(); at += sizeof sums) {
      std::array<std::uint64_t, 16> words{};
      std::memcpy(words.data(), bytes + at, sizeof words);
      for (std::size_t i = 0; i < words.size(); ++i) sums[i] += words[i];
    }
    for (const std::uint64_t sum : sums) kept_ ^= sum;
  }

  // The members' shares over plain streams: each stream has its part of the memory.
  void plain() { takes() ? receive_plain() : send_plain(); }

  [[nodiscard]] std::uint64_t kept() const { return kept_; }  // so that nothing is left out

 private:
  static constexpr std::size_t kAtOnce = std::size_t{1} << 20U;

  void open_streams(const std::vector<Door>& doors) {
    const int count = takes() ? members_ * streams_per_member_ : streams_per_member_;
    for (int i = 0; i < count; ++i) streams_.push_back(takes() ? accept_at(doors[0]) : connect_to(doors[0]));
    // Which part goes over which stream: its number among all, said once by who writes it.
    for (int i = 0; i < count; ++i) {
      auto part = static_cast<std::uint32_t>((rank_ - 1) * streams_per_member_ + i);
      const int stream = streams_[static_cast<std::size_t>(i)];
      if (takes() ? ::recv(stream, &part, sizeof part, MSG_WAITALL) != sizeof part
                  : ::send(stream, &part, sizeof part, 0) != sizeof part) {
        fail("cannot greet");
      }
      parts_.push_back(part);
    }
  }

  [[nodiscard]] std::span<std::byte> part(std::size_t stream) {
    const auto all = static_cast<std::size_t>(members_) * static_cast<std::size_t>(streams_per_member_);
    const std::size_t begin = memory_.size() * parts_[stream] / all;
    return std::span(memory_).subspan(begin, memory_.size() * (parts_[stream] + 1) / all - begin);
  }

  // One thread for all streams of a process.
  template <typename Move>
  void move_all(short events, Move move) {
    std::vector<std::span<std::byte>> left;
    std::vector<pollfd> files;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      left.push_back(part(i));
      files.push_back({streams_[i], events, 0});
    }
    for (std::size_t open = streams_.size(); open > 0;) {
      if (::poll(files.data(), files.size(), -1) < 0 && errno != EINTR) fail("cannot wait");
      for (std::size_t i = 0; i < files.size(); ++i) {
        if (files[i].revents == 0) continue;
        const ssize_t moved = move(files[i].fd, left[i].first(std::min(kAtOnce, left[i].size())));
        if (moved < 0 && errno == EAGAIN) continue;
        if (moved <= 0) fail("a plain stream is broken");
        left[i] = left[i].subspan(static_cast<std::size_t>(moved));
        if (!left[i].empty()) continue;
        files[i].fd = -1;  // poll() passes it over
        --open;
      }
    }
  }
  void send_plain() {
    move_all(POLLOUT, [](int file, std::span<std::byte> bytes) {
      return ::send(file, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    });
  }
  void receive_plain() {
    move_all(POLLIN, [](int file, std::span<std::byte> bytes) {
      return ::recv(file, bytes.data(), bytes.size(), MSG_DONTWAIT);
    });
  }

  static void finish(const char* what, const transport::Work& work) {
    work.wait();
    if (work.outcome().status != Status::kOk) throw std::runtime_error(std::string(what) + ": " + work.outcome().text);
  }

  const SyncBench& bench_;
  const int rank_;
  const int members_;
  MeetingPlace& meeting_;
  const Blackboard<SyncBenchBoard>& board_;
  const int streams_per_member_;
  std::vector<std::byte> memory_;
  std::vector<int> streams_;
  std::vector<std::uint32_t> parts_;
  std::unique_ptr<transport::Communicator> comm_;
  std::uint64_t kept_ = 0;
};

// ---- the measurements ----

void say(const SyncBench& bench, const std::string& json, const std::string& words) {
  fmt::print("{}\n", bench.json ? json : words);
  std::fflush(stdout);
}

struct Turn {
  Times wall;
  Times cpu;

  [[nodiscard]] std::string words(const SyncBench& bench) const {
    const double gib = static_cast<double>(bench.bytes()) / (1U << 30U);
    return fmt::format("{}, {:.2f} GiB/s, {:.2f} s of CPU", wall.words(), gib / wall.median(), cpu.median());
  }
  [[nodiscard]] std::string json() const {
    return fmt::format("{{\"wall\": {}, \"cpu\": {}}}", wall.json(), cpu.json());
  }
};

void takeover(SyncBenchPeer& peer, const SyncBench& bench, int members, bool unchanged) {
  Turn lockstep;
  Turn plain;
  Turn equal;  // what of Lockstep's is digesting, and agreeing
  Times ratios;
  for (int round = -1; round < bench.rounds; ++round) {  // the first opens links and touches pages
    peer.change_pieces(1);
    const auto turn = [&](Turn& of, const std::function<void()>& body) {
      const double wall = peer.time(body);
      if (round < 0) return wall;
      of.wall.add(wall);
      of.cpu.add(peer.cpu_seconds());
      return wall;
    };
    const double a = turn(lockstep, [&] { peer.sync({.blank = true, .unchanged = unchanged}); });
    const double b = turn(plain, [&] { peer.plain(); });
    turn(equal, [&] { peer.sync(); });
    if (round >= 0) ratios.add(b / a);
  }
  if (!peer.takes()) return;
  say(bench,
      fmt::format("{{\"what\": \"takeover\", \"bytes\": {}, \"members\": {}, \"unchanged\": {}, \"staged\": {}, "
                  "\"lockstep\": {}, \"plain\": {}, "
                  "\"equal\": {}, \"ratio\": {}}}",
                  bench.bytes(), members, unchanged, bench.staged, lockstep.json(), plain.json(), equal.json(),
                  ratios.json()),
      fmt::format(
          "takeover of {} MiB from {}{}: {}\n    if all is equal: {}\n    plain TCP: {}\n    plain / Lockstep {:.2f} "
          "({:.2f} to {:.2f}); bar 0.80",
          bench.mib, members, unchanged ? ", whose state has not changed" : "", lockstep.words(bench),
          equal.words(bench), plain.words(bench), ratios.median(), ratios.least(), ratios.most()));
}

void changes(SyncBenchPeer& peer, const SyncBench& bench) {
  peer.time([&] { peer.sync(); });
  peer.change_pieces(100);
  const std::uint64_t before = peer.traffic();
  const double time = peer.time([&] { peer.sync(); });
  if (!peer.takes()) return;
  const double part = static_cast<double>(peer.traffic() - before) / static_cast<double>(bench.bytes());
  say(bench,
      fmt::format("{{\"what\": \"changes\", \"bytes\": {}, \"received\": {}, \"part\": {:.5f}, \"s\": {:.6f}}}",
                  bench.bytes(), peer.traffic() - before, part, time),
      fmt::format("1 % of the pieces of {} MiB differ: {} bytes received, {:.4f} of the state, in {:.1f} ms; bar 0.015",
                  bench.mib, peer.traffic() - before, part, time * 1e3));
}

void equal(SyncBenchPeer& peer, const SyncBench& bench) {
  Times call;
  Times together;
  Times alone;
  Times read;
  for (int round = -1; round < bench.rounds; ++round) {
    const double a = peer.time([&] { peer.sync(); });
    const double b = peer.time([&] { peer.digest_all(); }, true);
    const double c = peer.time([&] {
      if (peer.takes()) peer.digest_all();
    });
    const double d = peer.time([&] {
      if (peer.takes()) peer.read_all();
    });
    if (round < 0) continue;
    call.add(a);
    together.add(b);
    alone.add(c);
    read.add(d);
  }
  if (!peer.takes() || peer.kept() == 1) return;
  say(bench,
      fmt::format("{{\"what\": \"equal\", \"bytes\": {}, \"call\": {}, \"digest_together\": {}, \"digest_alone\": {}, "
                  "\"read_alone\": {}, \"over_s\": {:.6f}, \"digest_to_read\": {:.3f}}}",
                  bench.bytes(), call.json(), together.json(), alone.json(), read.json(),
                  call.median() - together.median(), read.median() / alone.median()),
      fmt::format("all equal, {} MiB, 2 peers: call {}; digesting by both at once {}; over it {:.1f} ms, bar 5.0\n"
                  "one core: digesting {}, reading {}: {:.2f} of what can be read, bar 0.60",
                  bench.mib, call.words(), together.words(), (call.median() - together.median()) * 1e3, alone.words(),
                  read.words(), read.median() / alone.median()));
}

// Until everybody has measured.
void coordinate(MeetingPlace& meeting, int rank, const Blackboard<SyncBenchBoard>& board, int meetings) {
  transport::CoordinatorServer::Options options;
  options.listen = "127.0.0.1:0";
  auto server = transport::CoordinatorServer::start(std::move(options));
  if (!server.ok()) throw std::runtime_error(server.error().text);
  const std::string text = (*server)->address().text();
  text.copy(board->coordinator.data(), board->coordinator.size() - 1);
  for (int i = 0; i < meetings; ++i) meeting.meet(rank, 0);
}

int run_with(const SyncBench& bench, int members, int timings, const std::function<void(SyncBenchPeer&)>& body) {
  const std::vector<Door> doors(1);
  const Blackboard<SyncBenchBoard> board;
  MeetingPlace meeting(members + 2);
  return run_processes(members + 2, [&](int rank) {
    // One meeting at the beginning, two around each timing, one at the end.
    if (rank == members + 1) return coordinate(meeting, rank, board, 2 + 2 * timings);
    SyncBenchPeer peer(bench, rank, members, meeting, doors, board);
    body(peer);
    peer.meet();
  });
}

int run(int argc, char** argv) {
  SyncBench bench;
  CLI::App app("How fast a shared state is taken over, beside plain TCP, and beside digesting and reading it.");
  app.add_option("--mib", bench.mib, "size of the state; every process has one")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{65'536}))
      ->capture_default_str();
  app.add_option("--rounds", bench.rounds, "of each measurement")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--members", bench.members, "who have the state, for takeover")
      ->check(CLI::Range(1, 16))
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--streams", bench.streams, "of plain TCP from each member")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  app.add_option("--only", bench.only, "one measurement")
      ->check(CLI::IsMember({"all", "takeover", "changes", "equal"}))
      ->capture_default_str();
  app.add_flag("--staged", bench.staged, "pieces land beside the state");
  app.add_flag("-j,--json", bench.json, "the same facts as JSON, an object per line");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& end) {
    return app.exit(end) == 0 ? 0 : 2;
  }
  const auto wanted = [&](const char* what) { return bench.only == "all" || bench.only == what; };
  int code = 0;
  if (wanted("takeover")) {
    for (const int members : bench.members) {
      for (const bool unchanged : {false, true}) {
        code |= run_with(bench, members, 3 * (bench.rounds + 1),
                         [&](SyncBenchPeer& peer) { takeover(peer, bench, members, unchanged); });
      }
    }
  }
  if (wanted("changes")) code |= run_with(bench, 1, 2, [&](SyncBenchPeer& peer) { changes(peer, bench); });
  if (wanted("equal")) {
    code |= run_with(bench, 1, 4 * (bench.rounds + 1), [&](SyncBenchPeer& peer) { equal(peer, bench); });
  }
  return code;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::run(argc, argv); }
