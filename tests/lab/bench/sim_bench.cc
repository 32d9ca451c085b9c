// How fast the simulator is: runs and events per second of one core. Not a wall clock: rates are of processor time.
#include <fstream>
#include <sstream>
#include <string>

#include <benchmark/benchmark.h>

#include "sim/plan/plan.h"
#include "sim/plan/plan_file.h"
#include "sim/world/world.h"

namespace lockstep::sim {
namespace {

struct Sum {
  std::uint64_t seeds = 0;
  std::uint64_t events = 0;
  std::uint64_t commits = 0;
  std::uint64_t time_ns = 0;

  void add(const Report& report, benchmark::State& state) {
    if (report.failure) state.SkipWithError(report.failure->text.c_str());
    seeds += 1;
    events += report.events;
    commits += report.commits;
    time_ns += static_cast<std::uint64_t>(report.time_ns);
  }
  void tell(benchmark::State& state) const {
    const auto rate = [](std::uint64_t count) {
      return benchmark::Counter(static_cast<double>(count), benchmark::Counter::kIsRate);
    };
    const auto each = [this](std::uint64_t count) {
      return benchmark::Counter(static_cast<double>(count) / static_cast<double>(seeds));
    };
    state.counters["seeds/s"] = rate(seeds);
    state.counters["events/s"] = rate(events);
    state.counters["events/seed"] = each(events);
    state.counters["commits/seed"] = each(commits);
    state.counters["times_real"] = rate(time_ns / 1'000'000'000);
  }
};

// The scenario that the target is stated for, with one seed after the other.
void scenario(benchmark::State& state) {
  std::ifstream file(LOCKSTEP_SPEED_PLAN);
  std::stringstream text;
  text << file.rdbuf();
  const auto plan = plan_from_text(text.str());
  if (!plan) {
    state.SkipWithError(plan.error().text.c_str());
    return;
  }
  Plan next = *plan;
  Sum sum;
  for ([[maybe_unused]] const auto _ : state) {
    next.seed += 1;
    sum.add(run(next), state);
  }
  sum.tell(state);
}
BENCHMARK(scenario)->Iterations(300)->Unit(benchmark::kMillisecond);

// What `lockstep sim run --seeds 0..200` runs.
void swarm(benchmark::State& state) {
  std::uint64_t seed = 0;
  Sum sum;
  for ([[maybe_unused]] const auto _ : state) sum.add(run(plan_of(seed++)), state);
  sum.tell(state);
}
BENCHMARK(swarm)->Iterations(200)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep::sim
