// One peer of `lockstep demo`: a training program like a user's, which also reports its actions as lines of JSON. Its
// stdin accepts "leave" and "finish".
#include <fmt/core.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bindings/cli/api.h"
#include "bindings/cli/command.h"
#include "bindings/cli/demo_training.h"

namespace lockstep::cli {
namespace {

struct DemoPeerOptions {
  std::string coordinator;
  std::string name;
  std::uint32_t founders = 1;
  std::uint64_t bytes = 64U << 20U;
};

constexpr std::size_t kMaxPeers = 64;
constexpr std::int64_t kConnectMs = 60'000;

// One tag per purpose, so that a wrong order of calls shows up as a wait for a named tag.
enum Tag : std::uint64_t { kTagFlags = 1, kTagState = 2, kTagGradient = 3 };

void say(const nlohmann::json& what) {
  fmt::print("{}\n", what.dump());
  std::fflush(stdout);
}

std::string id_text(const lockstep_peer_id& id) {
  std::array<char, LOCKSTEP_PEER_ID_TEXT_SIZE> text{};
  check(lockstep_peer_id_text(&id, text.data()), "peer id");
  return text.data();
}

// This communicator is no longer part of the run. To continue, the peer must join again.
struct LostTheRun {
  lockstep_status status;
};

bool is_out(lockstep_status status) {
  return status == LOCKSTEP_ERR_EVICTED || status == LOCKSTEP_ERR_NOT_CONNECTED ||
         status == LOCKSTEP_ERR_OUTCOME_UNKNOWN;
}

class Peer {
 public:
  explicit Peer(const DemoPeerOptions& options)
      : options_(options), gradient_(options.bytes / sizeof(float)), mean_(gradient_.size()) {}

  int run() {
    for (;;) {
      join();
      try {
        train();
        return kExitOk;
      } catch (const LostTheRun& lost) {
        // A call whose own part was done ends with "outcome unknown". The status of the next call says why the run was
        // lost.
        const lockstep_status why = lockstep_barrier(comm_.get(), nullptr, nullptr);
        say({{"is", "out"},
             {"status", lockstep_status_string(why)},
             {"text", lockstep_last_error()},
             {"call", lockstep_status_string(lost.status)}});
      }
    }
  }

 private:
  void must(lockstep_status status, std::string_view what) const {
    if (is_out(status)) throw LostTheRun{status};
    check(status, what);
  }

  // Creates a new communicator each time, because a communicator that lost its run cannot be used again. The state is
  // outdated, too, because the other peers have continued.
  void join() {
    comm_.reset();
    training_ = Training();
    in_ = false;
    lockstep_comm_options options = LOCKSTEP_COMM_OPTIONS_INIT;
    options.name = options_.name.c_str();
    options.founders = options_.founders;
    comm_ = create_comm(options);
    check(lockstep_peer_id_self(comm_.get(), &self_), "peer id");
    say({{"is", "waiting"}, {"id", id_text(self_)}});
    check(lockstep_connect(comm_.get(), options_.coordinator.c_str(), kConnectMs), "connect");
  }

  // Every member makes the same calls in the same order. A new member starts with synchronize(), as the other members
  // do after an admission.
  void train() {
    synchronize();
    for (;;) {
      listen_to_stdin();
      if (leave_) {
        must(lockstep_leave(comm_.get(), 10'000), "leave");
        return say({{"is", "left"}});
      }
      const Flags flags = agree_on_flags();
      if (flags.finish != 0) {
        must(lockstep_leave(comm_.get(), 10'000), "leave");
        return say({{"is", "finished"}});
      }
      if (flags.pending != 0) {
        must(lockstep_admit(comm_.get(), LOCKSTEP_FOREVER, nullptr), "admit");
        synchronize();
      } else {
        step();
      }
    }
  }

  void listen_to_stdin() {
    pollfd in{STDIN_FILENO, POLLIN, 0};
    std::array<char, 256> bytes{};
    while (::poll(&in, 1, 0) > 0) {
      const ssize_t n = ::read(STDIN_FILENO, bytes.data(), bytes.size());
      if (n <= 0) return;
      const std::string_view said(bytes.data(), static_cast<std::size_t>(n));
      leave_ = leave_ || said.find("leave") != std::string_view::npos;
      finish_ = finish_ || said.find("finish") != std::string_view::npos;
    }
  }

  struct Flags {
    std::uint32_t pending = 0;
    std::uint32_t finish = 0;
  };

  // Spreads the flags of each peer to all peers. Otherwise some peers would call admit and others would not.
  Flags agree_on_flags() {
    Flags flags;
    check(lockstep_pending(comm_.get(), &flags.pending), "pending");
    flags.finish = finish_ ? 1 : 0;
    lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
    args.send = &flags;
    args.recv = &flags;
    args.count = 2;
    args.type = LOCKSTEP_U32;
    args.op = LOCKSTEP_MAX;
    args.tag = kTagFlags;
    must(lockstep_all_reduce(comm_.get(), &args, nullptr), "agree on flags");
    return flags;
  }

  // Afterwards all peers hold one state: the members' state or, at the beginning, the initial state.
  void synchronize() {
    const auto tensors = training_.tensors();
    const auto values = training_.values();
    lockstep_sync_state_args args = LOCKSTEP_SYNC_STATE_ARGS_INIT;
    args.tensors = tensors.data();
    args.tensors_count = tensors.size();
    args.values = values.data();
    args.values_count = values.size();
    args.revision = training_.step();
    args.staged = 1;
    args.tag = kTagState;
    lockstep_result result = LOCKSTEP_RESULT_INIT;
    must(lockstep_sync_state(comm_.get(), &args, &result), "sync of the state");
    if (std::exchange(in_, true)) return;
    const lockstep_world world = world_of(comm_);
    say({{"is", "joined"},
         {"view", world.view},
         {"world", world.world_size},
         {"step", training_.step()},
         {"received", result.bytes_received}});
  }

  void step() {
    training_.gradient(self_, gradient_);
    say({{"is", "begins"}, {"step", training_.step() + 1}});
    std::array<lockstep_peer_id, kMaxPeers> contributors{};
    lockstep_result result = LOCKSTEP_RESULT_INIT;
    result.contributors = contributors.data();
    result.contributors_capacity = contributors.size();
    lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
    args.send = gradient_.data();
    args.recv = mean_.data();
    args.count = gradient_.size();
    args.type = LOCKSTEP_F32;
    args.op = LOCKSTEP_AVG;
    args.tag = kTagGradient;
    must(lockstep_all_reduce(comm_.get(), &args, &result), "all-reduce");

    const std::size_t known = std::min<std::size_t>(result.contributors_count, contributors.size());
    const std::uint32_t wrong = training_.wrong(mean_, std::span(contributors).first(known));
    training_.advance(mean_);
    say({{"is", "step"},
         {"step", training_.step()},
         {"view", result.view},
         {"world", result.world_size},
         {"seconds", result.seconds},
         {"retries", result.retries},
         {"wrong", wrong},
         {"hash", fmt::format("{:016x}", training_.hash())}});
  }

  const DemoPeerOptions& options_;
  std::vector<float> gradient_;
  std::vector<float> mean_;
  Comm comm_;
  lockstep_peer_id self_{};
  Training training_;
  bool in_ = false;  // holds the members' state
  bool leave_ = false;
  bool finish_ = false;
};

}  // namespace

Run add_demo_peer(CLI::App& app) {
  CLI::App* command = app.add_subcommand("demo-peer", "one process of the demo")->group("");
  auto options = std::make_shared<DemoPeerOptions>();
  command->add_option("--coordinator", options->coordinator)->required();
  command->add_option("--name", options->name);
  command->add_option("--founders", options->founders);
  command->add_option("--bytes", options->bytes);
  return [options] { return Peer(*options).run(); };
}

}  // namespace lockstep::cli
