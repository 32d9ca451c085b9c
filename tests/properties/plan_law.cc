#include "tests/properties/plan_law.h"

#include <fmt/core.h>

#include "core/base/mutant.h"
#include "sim/cli/command.h"
#include "sim/cli/trial.h"
#include "sim/plan/plan_file.h"
#include "tests/sim/run_sim.h"

namespace lockstep::sim {
namespace {

std::string planted() {
  for (const MutantEntry& entry : kMutants) {
    if (mutant(entry.mutant)) return " --mutant " + std::string(entry.id);
  }
  return {};
}

}  // namespace

Breach no_end() { return {{.promise = "limit"}, fmt::format("no end after {} s", kRunLimit)}; }

std::optional<Breach> breaks_a_promise(const Plan& plan) {
  const Tried tried = try_plan(plan, kRunLimit);
  if (tried.given_up) return no_end();
  const auto& failure = tried.report.failure;
  if (!failure) return {};
  return Breach{{failure->promise, Instant{failure->at_ns}, tried.report.launches}, text_of(*failure)};
}

std::string objection_to(const Plan& plan, const PlanLaw& law, std::uint32_t max_runs) {
  std::optional<Breach> last;
  std::string text;
  const Trial trial = [&](const Plan& candidate) -> std::optional<Broken> {
    last = law(candidate);
    if (!last) return {};
    if (text.empty()) text = last->text;
    return last->broken;
  };
  ShrinkOptions options;
  options.max_runs = max_runs;
  options.better = [&](const Plan&) { text = last->text; };
  const std::optional<Shrunk> shrunk = shrink(plan, trial, options);
  if (!shrunk) return {};
  const std::string small = to_text(shrunk->plan);
  return fmt::format("{}\nfrom {}, {} to {}, {} in {}\nlockstep sim run {}{}\n\n{}", text,
                     counted(plan.entries.size(), "fault"), counted(plan.peers, "peer"),
                     counted(shrunk->plan.entries.size(), "fault"), counted(shrunk->plan.peers, "peer"),
                     counted(shrunk->runs, "run"), file_with(small, "plan.toml"), planted(), small);
}

}  // namespace lockstep::sim
