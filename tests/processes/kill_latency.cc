// Measures how long survivors wait when one of 4 peers dies: from SIGKILL (or SIGSTOP: --stop) of a peer until all
// three others have committed an all-reduce without it. 1 MiB of f32, default options; a new peer joins between two
// measurements. Exits with 1 if anything except the time is wrong.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/rng.h"
#include "tests/processes/coordinator_process.h"
#include "transport/communicator.h"

namespace lockstep::testing {
namespace {

constexpr std::size_t kWorld = 4;
constexpr std::size_t kCount = (1U << 20U) / sizeof(float);
constexpr Duration kPatience = seconds(30);

// All-reduces until it is stopped; prints one line per call: world size and time of the end.
int reduce_for_ever(Parent& parent, const std::string& address, std::uint32_t founders) {
  transport::CommunicatorOptions options;
  options.listen_host = "127.0.0.1";
  options.peer.founders = founders;
  options.peer.auto_admit = true;
  auto comm = transport::Communicator::create(options);
  if (!comm.ok()) return 1;
  const transport::Work connecting = (*comm)->connect(address);
  connecting.wait();
  if (connecting.outcome().status != Status::kOk) return 1;
  std::vector<float> input(kCount, 1.0F);
  std::vector<float> output(kCount);
  for (;;) {
    transport::LaunchArgs args;
    args.collective = wire::Collective::kAllReduce;
    args.type = DataType::kF32;
    args.tensors.push_back({input.data(), output.data(), kCount, 0});
    const auto work = (*comm)->launch(args);
    if (!work.ok()) return 1;
    work->wait();
    const transport::Outcome& outcome = work->outcome();
    const Instant now = monotonic_now();
    if (outcome.status != Status::kOk) {
      parent.say("E " + std::string(status_name(outcome.status)) + ": " + outcome.text);
      return 1;
    }
    const auto right = static_cast<float>(outcome.world);
    if (output.front() != right || output.back() != right) {
      parent.say("E a sum that is not that of its contributors");
      return 1;
    }
    parent.say("C " + std::to_string(outcome.world) + " " + std::to_string(now.ns));
  }
}

class Bench {
 public:
  Bench(std::uint64_t kills, std::uint64_t seed, int signal) : kills_(kills), seed_(seed), signal_(signal) {}

  int run() {
    for (std::size_t i = 0; i < kWorld; ++i) start(kWorld);
    for (std::uint64_t n = 0; n < kills_; ++n) {
      if (!all_reach(kWorld, monotonic_now())) return 1;
      // Drawn, and not left to chance: a random moment of the loop.
      const Instant moment =
          monotonic_now() + microseconds(static_cast<std::int64_t>(10'000 + below(draw(seed_, 1, n), 40'000)));
      while (monotonic_now() < moment) {
        for (auto& peer : peers_) peer->hear(milliseconds(1));
      }
      const std::size_t victim = below(draw(seed_, 2, n), peers_.size());
      const Instant start_at = monotonic_now();
      peers_[victim]->signal(signal_);
      const auto dead = std::move(peers_[victim]);
      peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(victim));
      const auto end_at = all_reach(kWorld - 1, start_at);
      if (!end_at) return 1;
      times_ms_.push_back((*end_at - start_at).seconds() * 1e3);
      start(1);
    }
    std::sort(times_ms_.begin(), times_ms_.end());
    const auto percentile = [&](std::size_t p) { return times_ms_[(times_ms_.size() - 1) * p / 100]; };
    std::printf(
        "%s of one of %zu peers, 1 MiB f32, %zu times: survivors commit after median %.1f ms, p95 %.1f ms, max %.1f "
        "ms\n",
        signal_ == SIGKILL ? "SIGKILL" : "SIGSTOP", kWorld, times_ms_.size(), percentile(50), percentile(95),
        times_ms_.back());
    if (signal_ == SIGSTOP) {
      const double limit_ms = coordinator::CoordinatorOptions{}.silence.seconds() * 1e3 + 100;
      std::printf("limit (the default silence time-out + 100 ms): %.0f ms; over it: %zd\n", limit_ms,
                  std::count_if(times_ms_.begin(), times_ms_.end(), [&](double ms) { return ms > limit_ms; }));
    }
    return 0;
  }

 private:
  void start(std::uint32_t founders) {
    const std::string address = coordinator_.address;
    peers_.push_back(std::make_unique<Process>(
        [address, founders](Parent& parent) { return reduce_for_ever(parent, address, founders); }));
  }

  // Waits until every peer has committed a round of this world size after `since`; returns the time of the last one.
  std::optional<Instant> all_reach(std::size_t world, Instant since) {
    Instant last = since;
    const Instant give_up = monotonic_now() + kPatience;
    for (auto& peer : peers_) {
      for (bool reached = false; !reached;) {
        const auto line = peer->hear(give_up - monotonic_now());
        std::string kind;
        std::size_t its_world = 0;
        Instant at;
        if (line) std::istringstream(*line) >> kind >> its_world >> at.ns;
        if (!line || kind != "C") {
          std::printf("FAILED: %s\n", line ? line->c_str() : "a peer hangs or has ended");
          return std::nullopt;
        }
        reached = its_world == world && at > since;
        if (reached) last = std::max(last, at);
      }
    }
    return last;
  }

  const std::uint64_t kills_;
  const std::uint64_t seed_;
  const int signal_;
  CoordinatorProcess coordinator_;
  std::vector<std::unique_ptr<Process>> peers_;
  std::vector<double> times_ms_;
};

}  // namespace
}  // namespace lockstep::testing

int main(int argc, char** argv) {
  std::uint64_t kills = 100;
  std::uint64_t seed = 1;
  int signal = SIGKILL;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--stop") == 0) {
      signal = SIGSTOP;
    } else if (std::strcmp(argv[i], "--kills") == 0 && i + 1 < argc) {
      kills = std::max(1ULL, std::strtoull(argv[++i], nullptr, 10));
    } else if (std::strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::fprintf(stderr, "usage: lockstep_kill_latency [--kills N] [--seed S] [--stop]\n");
      return 2;
    }
  }
  return lockstep::testing::Bench(kills, seed, signal).run();
}
