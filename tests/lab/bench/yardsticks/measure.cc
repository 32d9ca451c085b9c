#include "tests/lab/bench/yardsticks/measure.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <CLI/CLI.hpp>

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

struct Timing {
  double average = 0;         // seconds of a call, on the slowest process
  std::vector<double> calls;  // seconds of each call, on this process
};

Timing time_of(Group& group, int calls) {
  Timing timing;
  timing.calls.reserve(static_cast<std::size_t>(calls));
  group.slowest(0);  // all start together
  const auto began = Clock::now();
  auto last = began;
  for (int i = 0; i < calls; ++i) {
    group.all_reduce();
    const auto now = Clock::now();
    timing.calls.push_back(seconds_between(std::exchange(last, now), now));
  }
  timing.average = group.slowest(seconds_between(began, last) / calls);
  return timing;
}

void print_each(Group& group, const Timing& timing) {
  std::string line = "calls";
  for (const double mine : timing.calls) line += fmt::format(" {:.1f}", group.slowest(mine) * 1e6);
  if (group.rank() == 0) fmt::print("{}\n", line);
}

// Splits "10.77.0.1=/proc/7/ns/net".
Host host_of(const std::string& word) {
  const auto at = word.find('=');
  if (at == std::string::npos) throw CLI::ValidationError("--hosts", "'" + word + "' is not like ADDRESS=FILE");
  return {word.substr(0, at), word.substr(at + 1)};
}

// Small whole numbers: their sums are exact in any order.
float element(std::size_t i, int rank) { return static_cast<float>((i + static_cast<std::size_t>(rank)) % 7); }

std::size_t wrong_in(std::span<const float> sum, int processes) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    float expected = 0;
    for (int rank = 0; rank < processes; ++rank) expected += element(i, rank);
    wrong += sum[i] == expected ? 0 : 1;
  }
  return wrong;
}

}  // namespace

Work work_of(int argc, char** argv, Starter starter, const std::vector<std::string>& algorithms) {
  Work work;
  CLI::App app("All-reduces f32 and says, per size: bytes, microseconds, bus bandwidth in GB/s, wrong elements.");
  app.add_option("sizes", work.sizes, "of tensors, in bytes")
      ->required()
      ->check(CLI::Range(std::uint64_t{4}, std::uint64_t{4} << 30U));
  app.add_option("--calls", work.calls, "to measure, instead of half a second of them")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--warmup", work.warmup, "calls between the checked call and the measured calls")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_flag("--each", work.each, "print the time of each call, too");
  std::vector<std::string> hosts;
  if (starter != Starter::kMpirun) {
    app.add_option("-n,--processes", work.processes, "to start")->required()->check(CLI::Range(2, 64));
  }
  if (starter == Starter::kItselfOnHosts) {
    app.add_option("--hosts", hosts,
                   "ADDRESS=FILE,...: address and file of the network namespace of each process; default: loopback")
        ->delimiter(',');
  }
  if (!algorithms.empty())
    app.add_option("--algorithm", work.algorithm, "only this one")->check(CLI::IsMember(algorithms));
  try {
    app.parse(argc, argv);
    for (const std::string& word : hosts) work.hosts.push_back(host_of(word));
    if (!hosts.empty() && hosts.size() != static_cast<std::size_t>(work.processes)) {
      throw CLI::ValidationError("--hosts", "needs as many hosts as processes");
    }
  } catch (const CLI::ParseError& end) {
    std::exit(app.exit(end) == 0 ? 0 : 2);
  }
  for (std::uint64_t& bytes : work.sizes) bytes -= bytes % sizeof(float);
  return work;
}

void measure(Group& group, const Work& work, const std::string& algorithm) {
  constexpr double kTargetSeconds = 0.5;
  for (const std::uint64_t bytes : work.sizes) {
    std::vector<float> send(bytes / sizeof(float));
    std::vector<float> recv(send.size(), -1);
    for (std::size_t i = 0; i < send.size(); ++i) send[i] = element(i, group.rank());
    group.prepare(send, recv);
    group.all_reduce();
    const double wrong = group.slowest(static_cast<double>(wrong_in(recv, group.size())));

    const double estimate = time_of(group, work.warmup).average;
    const double wanted = std::clamp(kTargetSeconds / std::max(estimate, 1e-7), 4.0, 5000.0);
    const Timing timing = time_of(group, work.calls > 0 ? work.calls : static_cast<int>(wanted));
    const double bus = static_cast<double>(bytes) / timing.average * 2 * (group.size() - 1) / group.size() * 1e-9;
    if (group.rank() == 0) {
      fmt::print("{} {:.1f} {:.3f} {:.0f} {}\n", bytes, timing.average * 1e6, bus, wrong, algorithm);
    }
    if (work.each) print_each(group, timing);
    std::fflush(stdout);
  }
}

}  // namespace lockstep::bench
