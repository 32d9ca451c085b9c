#include "tests/lab/bench/yardsticks/measure.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <CLI/CLI.hpp>

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

double time_of(Group& group, int calls) {
  group.slowest(0);  // all start together
  const auto began = Clock::now();
  for (int i = 0; i < calls; ++i) group.all_reduce();
  return group.slowest(std::chrono::duration<double>(Clock::now() - began).count() / calls);
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
  if (starter == Starter::kItself) {
    app.add_option("-n,--processes", work.processes, "to start")->required()->check(CLI::Range(2, 64));
  }
  if (!algorithms.empty())
    app.add_option("--algorithm", work.algorithm, "only this one")->check(CLI::IsMember(algorithms));
  try {
    app.parse(argc, argv);
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

    const double estimate = time_of(group, 2);
    const double wanted = std::clamp(kTargetSeconds / std::max(estimate, 1e-7), 4.0, 5000.0);
    const double seconds = time_of(group, work.calls > 0 ? work.calls : static_cast<int>(wanted));
    if (group.rank() != 0) continue;
    const double bus = static_cast<double>(bytes) / seconds * 2 * (group.size() - 1) / group.size() * 1e-9;
    fmt::print("{} {:.1f} {:.3f} {:.0f} {}\n", bytes, seconds * 1e6, bus, wrong, algorithm);
    std::fflush(stdout);
  }
}

}  // namespace lockstep::bench
