// `lockstep sim cover`: the coverage of states by inputs, messages and faults, in runs of the corpus, scenarios,
// sweeps, hunts and the swarm. The report tells impossible cells, with reasons, from open ones.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "core/base/assert.h"
#include "sim/cli/command.h"
#include "sim/cli/many.h"
#include "sim/cli/report_json.h"
#include "sim/cli/usage.h"
#include "sim/cover/cells.h"
#include "sim/cover/curve.h"
#include "sim/cover/impossible.h"
#include "sim/cover/judge.h"
#include "sim/cover/page.h"
#include "sim/cover/surveyor.h"
#include "sim/search/shrink.h"
#include "sim/search/sweep.h"
#include "sim/world/world.h"

namespace lockstep::sim {
namespace {

constexpr int kCoverJsonVersion = 1;
constexpr std::uint32_t kRunsToShrink = 1000;

struct CoverFlags {
  SwarmFlags swarm;
  std::vector<std::string> files = {"sim/corpus", "sim/cover/plans", "sim/scenarios"};
  std::vector<std::string> swept = {"sim/sweeps", "sim/cover/sweeps"};
  std::uint64_t stride = 20;
  std::vector<std::string> hunts = {"sim/cover/hunts"};
  std::uint64_t each = 200;
  std::string seeds = "0..2000";
  std::uint32_t jobs = 1;
  std::vector<std::string> find;
  std::string keep;
  bool curve = false;  // of the seeds alone
  bool json = false;
};

struct Item {
  std::function<Plan()> plan;
  std::string again;  // the command that repeats it; empty: a plan must be written first
};

// Faults of every kind, wherever they can begin.
std::vector<Entry> every_fault(const Plan& plan) {
  std::vector<Entry> faults = single_faults(plan);
  const auto add = [&](Fault fault, std::uint32_t a, std::uint32_t b, Duration length, std::uint64_t number) {
    Entry entry;
    entry.fault = fault;
    entry.a = a;
    entry.b = b;
    entry.length = length;
    entry.number = number;
    faults.push_back(entry);
  };
  for (std::uint32_t a = 1; a <= plan.peers; ++a) {
    add(Fault::kJoin, a, 0, {}, 0);
    add(Fault::kKernels, a, 0, plan.heartbeat, 50);
    add(Fault::kTimeout, a, 0, plan.heartbeat / 50, 0);
    add(Fault::kMismatch, a, 0, {}, 0);
    add(Fault::kRefuse, a, 0, {}, 0);
    add(Fault::kSkip, a, 0, {}, 0);
    add(Fault::kLie, a, 0, plan.heartbeat * 2, 0);
    if (!plan.state.shared) add(Fault::kSpoil, a, 0, plan.heartbeat, 0);
    if (!plan.state.watch) add(Fault::kDrift, a, 0, {}, 0);
    for (std::uint32_t b = 0; b < a; ++b) {
      add(Fault::kSlow, a, b, plan.heartbeat, 50);
      add(Fault::kCutBoth, a, b, plan.heartbeat * 10, 0);
      add(Fault::kDrip, a, b, plan.heartbeat * 4, 1);
    }
  }
  return faults;
}

void add_sweep(const std::string& file, std::uint64_t stride, std::vector<Item>& items) {
  Plan plan = read_either(file, std::nullopt);
  plan.expect = {};
  if (plan.program.call_timeout.ns == 0)
    plan.program.call_timeout = plan.heartbeat * 40;  // others wait for a peer that skips a call
  const Report calm = run(plan);
  if (calm.failure) throw UsageError(file + " breaks " + calm.failure->promise + " by itself: run it first");
  const auto sweep = std::make_shared<const Sweep>(plan, calm.healed_at_event, stride, every_fault(plan));
  for (std::uint64_t index = 0; index < sweep->size(); ++index) {
    items.push_back({[sweep, index] { return sweep->plan(index); }, ""});
  }
}

void add_scenario(const std::string& file, Scenario read, std::uint64_t seeds, std::vector<Item>& items) {
  const auto scenario = std::make_shared<const Scenario>(std::move(read));
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    items.push_back(
        {[scenario, seed] { return plan_of(*scenario, seed); }, fmt::format("run {} --seed {}", file, seed)});
  }
}

void add_seeds(const CoverFlags& flags, std::vector<Item>& items) {
  const SeedRange range = seed_range(flags.seeds);
  const PlanOptions options = flags.swarm.options();
  for (std::uint64_t seed = range.first; seed < range.end; ++seed) {
    items.push_back(
        {[options, seed] { return plan_of(seed, options); }, fmt::format("run --seed {}{}", seed, flags.swarm.text())});
  }
}

std::vector<Item> items_of(const CoverFlags& flags) {
  std::vector<Item> items;
  if (flags.curve) {
    add_seeds(flags, items);
    return items;
  }
  for (const std::string& file : toml_files_in(flags.files)) {
    auto read = read_plan_or_scenario(file);
    if (auto* scenario = std::get_if<Scenario>(&read)) {
      add_scenario(file, std::move(*scenario), 1, items);
    } else {
      items.push_back({[plan = std::get<Plan>(std::move(read))] { return plan; }, "replay " + file});
    }
  }
  if (flags.each != 0) {
    for (const std::string& file : toml_files_in(flags.hunts))
      add_scenario(file, read_scenario(file), flags.each, items);
  }
  if (flags.stride != 0) {
    for (const std::string& file : toml_files_in(flags.swept)) add_sweep(file, flags.stride, items);
  }
  add_seeds(flags, items);
  return items;
}

nlohmann::json to_json(const cover::Tally& tally, const cover::Reasons& reasons, const cover::Verdict& verdict) {
  nlohmann::json json = cover::to_json(tally);
  json["version"] = kCoverJsonVersion;
  json["hit"] = verdict.hit;
  json["impossible"] = verdict.impossible;
  json["unreached"] = verdict.unreached;
  json["open"] = nlohmann::json::array();
  for (const cover::Cell cell : verdict.open) json["open"].push_back(cover::name_of(cell));
  json["wrong_reasons"] = nlohmann::json::array();
  for (const cover::Cell cell : verdict.stale) {
    json["wrong_reasons"].push_back({{"cell", cover::name_of(cell)}, {"reason", reasons.impossible[cell]}});
  }
  return json;
}

// The cells that --find names.
std::vector<cover::Cell> sought_by(const CoverFlags& flags) {
  std::vector<cover::Cell> sought;
  for (const std::string& name : flags.find) {
    cover::Cell cell = 0;
    while (cell < cover::cell_count() && cover::name_of(cell) != name) ++cell;
    if (cell == cover::cell_count()) {
      throw UsageError("no cell is called '" + name + "': give it as it is listed, as in 'peer-fault: down x crash'");
    }
    sought.push_back(cell);
  }
  return sought;
}

// Runs a plan; `hits` are the cells that the run hits.
Report run_surveyed(const Plan& plan, cover::Hits& hits) {
  hits = {};
  cover::Surveyor surveyor(hits);
  WorldOptions world;
  world.witness = &surveyor;
  return run(plan, world);
}

// A smaller plan that hits the same cells.
Plan shrunk_for(const Plan& plan, const std::vector<cover::Cell>& cells) {
  const Trial trial = [&](const Plan& candidate) -> std::optional<Broken> {
    cover::Hits hits;
    if (run_surveyed(candidate, hits).failure) return {};
    if (!std::all_of(cells.begin(), cells.end(), [&](cover::Cell cell) { return hits.has(cell); })) return {};
    return Broken{"hits the cells"};
  };
  ShrinkOptions options;
  options.max_runs = kRunsToShrink;
  const std::optional<Shrunk> shrunk = shrink(plan, trial, options);
  return shrunk ? shrunk->plan : plan;  // a plan that breaks a promise stays as it is
}

// The runs that hit the cells of --find, reduced to a few runs that together hit all of them.
class Finds {
 public:
  explicit Finds(std::vector<cover::Cell> sought) : sought_(std::move(sought)) {}

  void take(std::uint64_t item, const cover::Hits& hits) {
    std::vector<cover::Cell> cells;
    for (const cover::Cell cell : sought_) {
      if (hits.has(cell)) cells.push_back(cell);
    }
    if (!cells.empty()) by_item_.emplace(item, std::move(cells));
  }

  void tell(const std::vector<Item>& items, const std::string& folder) {
    while (!by_item_.empty()) {
      const auto most = std::max_element(by_item_.begin(), by_item_.end(), [](const auto& a, const auto& b) {
        return a.second.size() < b.second.size();
      });
      const auto [item, cells] = *most;
      std::string again = items[item].again;
      if (!folder.empty()) {
        const std::string file = fmt::format("{}/{}.toml", folder, file_name_of(cells.front()));
        Plan plan = items[item].plan();
        plan.expect = {};
        write_plan(shrunk_for(plan, cells), file);
        again = "replay " + file;
      }
      for (const cover::Cell cell : cells) fmt::print("{}: ", cover::name_of(cell));
      fmt::print("{}\n", again.empty() ? "in a sweep; --keep FOLDER writes its plan" : "lockstep sim " + again);
      for (const cover::Cell cell : cells) std::erase(sought_, cell);
      for (auto& [other, its] : by_item_) {
        std::erase_if(
            its, [&](cover::Cell cell) { return std::find(sought_.begin(), sought_.end(), cell) == sought_.end(); });
      }
      std::erase_if(by_item_, [](const auto& entry) { return entry.second.empty(); });
    }
    for (const cover::Cell cell : sought_) fmt::print("{}: no run hits it\n", cover::name_of(cell));
  }

 private:
  // "peer-fault-down-x-crash".
  static std::string file_name_of(cover::Cell cell) {
    std::string name = cover::name_of(cell);
    std::erase(name, ':');
    std::replace(name.begin(), name.end(), ' ', '-');
    return name;
  }

  std::vector<cover::Cell> sought_;
  std::map<std::uint64_t, std::vector<cover::Cell>> by_item_;
};

int cover_all(const CoverFlags& flags) {
  Finds finds(sought_by(flags));
  const std::vector<Item> items = items_of(flags);
  const Result<cover::Reasons> reasons = cover::reasons_of(cover::impossible(), cover::unreached());
  LOCKSTEP_ASSERT(reasons.ok());
  cover::Tally tally;
  cover::Curve curve;
  cover::Hits hits;
  ManyOptions options;
  options.end = items.size();
  options.jobs = flags.jobs;
  options.keep_going = true;
  options.progress = !flags.json;
  options.unit = "runs";
  options.leaves = [&] { return hits.text(); };
  options.takes = [&](const Report& report, const std::string& text) {
    const auto left = cover::Hits::from_text(text);
    LOCKSTEP_ASSERT(left.has_value());  // our own child wrote it
    tally.add(*left);
    curve.take(report.seed, *left);
    finds.take(report.seed, *left);
  };
  const ManyRuns runs = run_many(options, [&](std::uint64_t index) {
    Report report = run_surveyed(items[index].plan(), hits);
    report.seed = index;
    return report;
  });
  const cover::Verdict verdict = cover::judge(tally, *reasons);
  if (flags.curve) {
    fmt::print("{}{}", curve.text(items.size()), cover::summary_of(tally, verdict));
  } else if (flags.json) {
    nlohmann::json json = to_json(tally, *reasons, verdict);
    json["failures"] = nlohmann::json::array();
    for (const Report& report : runs.failures) json["failures"].push_back(sim::to_json(report));
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{}{}", cover::tables_of(tally, *reasons), cover::summary_of(tally, verdict));
  }
  std::fflush(stdout);
  finds.tell(items, flags.keep);
  std::fflush(stdout);
  if (!flags.curve) fmt::print(stderr, "{}", cover::complaints_of(tally, *reasons, verdict));
  for (const Report& report : runs.failures) {
    std::string again = items[report.seed].again;
    if (again.empty()) {
      const std::string plan = fmt::format("cover-{}.toml", report.seed);
      write_plan(items[report.seed].plan(), plan);
      again = "replay " + plan;
    }
    fmt::print(stderr, "{}\nlockstep sim {}\n", text_of(*report.failure), again);
  }
  if (!runs.failures.empty()) return exit_code_of(*runs.failures.front().failure);
  return flags.curve || cover::is_complete(verdict) ? kExitPass : kExitGoal;
}

}  // namespace

Run add_cover(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("cover", "counts the combinations of states with inputs, messages and faults that runs reach");
  const auto flags = std::make_shared<CoverFlags>();
  command->add_option("files", flags->files, "plans and scenarios, or folders of them, that run beside the seeds")
      ->capture_default_str();
  flags->swarm.declare(*command);
  command->add_option("--seeds", flags->seeds, "A..B: A, A+1, ..., B-1, of the swarm")->capture_default_str();
  command->add_option("--jobs", flags->jobs, "processes")->check(CLI::Range(1U, kMostJobs));
  command
      ->add_option("--swept", flags->swept,
                   "plans and scenarios, or folders of them, each run with every fault at its events")
      ->capture_default_str();
  command->add_option("--stride", flags->stride, "faults begin at every so many events of them; 0: they are left out")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command->add_option("--hunts", flags->hunts, "scenarios, or folders of them, each run with many seeds")
      ->capture_default_str();
  command->add_option("--each", flags->each, "seeds of each hunt; 0: they are left out")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command->add_option("--find", flags->find, "a cell, as it is listed: name a run that hits it; may be repeated");
  command->add_option("--keep", flags->keep, "with --find: write the plans of these runs, shrunk, to this folder")
      ->check(file_name());
  command->add_flag("--curve", flags->curve, "only the seeds: how many cells the first 1, 2, 5, 10, ... of them hit");
  command->add_flag("--json", flags->json, "the same facts as JSON");
  return [flags, command] {
    SwarmFlags::refuse_without_effect(*command, false);
    if (flags->find.empty()) refuse(*command, {"--keep"}, "without --find");
    if (flags->curve) refuse(*command, {"files", "--swept", "--stride", "--hunts", "--each", "--json"}, "with --curve");
    if (!flags->keep.empty() && !std::filesystem::is_directory(flags->keep)) {
      throw UsageError("--keep " + flags->keep + ": there is no such folder");
    }
    return cover_all(*flags);
  };
}

}  // namespace lockstep::sim
