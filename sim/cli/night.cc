// `lockstep sim night`: runs seeds for hours. After every slice of seeds the results are written to a folder, so that a
// later night can continue an interrupted one: state.json for the program, report.md for people, and a plan for each
// failure.
#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "core/base/assert.h"
#include "core/kernels/checksum.h"
#include "sim/cli/command.h"
#include "sim/cli/many.h"
#include "sim/cli/night_state.h"
#include "sim/cli/stopwatch.h"
#include "sim/cli/usage.h"
#include "sim/cover/surveyor.h"
#include "sim/workload/text.h"
#include "sim/world/world.h"

namespace lockstep::sim {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostFailures = 100;  // whoever has so many wants to mend, not to find more

struct NightFlags {
  std::string folder;
  double hours = 8;
  std::uint32_t jobs = 1;
  std::uint64_t slice = 2000;
  std::uint32_t max_peers = 32;
};

std::string build_of_this_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::vector<char> piece(1U << 20U);
  ChecksumStream sum;
  std::uint64_t read = 0;
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0) {
    const auto bytes = static_cast<std::size_t>(file.gcount());
    sum.update(std::as_bytes(std::span(piece).first(bytes)));
    read += bytes;
  }
  if (read == 0) throw UsageError("cannot read /proc/self/exe, which tells this build from others");
  return hex(sum.value());
}

// No earlier night is ever removed.
fs::path not_there_yet(const fs::path& wanted) {
  fs::path path = wanted;
  for (int n = 2; fs::exists(path); ++n) path = fmt::format("{}-{}", wanted.string(), n);
  return path;
}

// The last night in this folder, if it ran the same build; otherwise a new night replaces it.
Night go_on_or_begin(const fs::path& folder, const NightFlags& flags) {
  Night fresh;
  fresh.build = build_of_this_program();
  fresh.max_peers = flags.max_peers;
  const fs::path state = folder / "state.json";
  if (!fs::exists(state)) return fresh;
  Night last;
  try {
    last = night_from(nlohmann::json::parse(read_text(state.string())));
  } catch (const std::exception& error) {
    throw UsageError(state.string() + " is not the state of a night: " + error.what() + "; remove it to begin anew");
  }
  if (last.build == fresh.build && last.max_peers == fresh.max_peers) return last;
  const fs::path aside = not_there_yet(folder / ("before-" + last.build));
  fs::create_directories(aside);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) fs::rename(entry.path(), aside / entry.path().filename());
  }
  fmt::print("another build, or other --max-peers: its night now lies in {}\n", aside.string());
  return fresh;
}

// The whole text or none of it, even if we die now.
void save(const fs::path& path, const std::string& text) {
  const fs::path draft = path.string() + ".new";
  std::ofstream file(draft, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw UsageError("cannot write " + draft.string());
  fs::rename(draft, path);
}

std::string now_as_text() { return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr))); }

void keep(const Night& night, const fs::path& folder) {
  save(folder / "state.json", to_json(night).dump(2) + "\n");
  save(folder / "report.md", report_of(night, now_as_text()));
}

void run_slice(Night& night, const NightFlags& flags, const fs::path& folder) {
  ManyOptions options;
  options.first = night.next_seed;
  options.end = night.next_seed + flags.slice;
  options.jobs = flags.jobs;
  options.keep_going = true;
  const Stopwatch stopwatch;
  PlanOptions plans;
  plans.max_peers = night.max_peers;
  cover::Hits hits;
  bool looks = false;
  options.leaves = [&] { return looks ? hits.text() : ""; };
  options.takes = [&](const Report&, const std::string& text) {
    if (text.empty()) return;
    const auto left = cover::Hits::from_text(text);
    LOCKSTEP_ASSERT(left.has_value());  // our own child wrote it
    night.cells.add(*left);
  };
  const ManyRuns runs = run_many(options, [&](std::uint64_t seed) {
    hits = {};
    looks = seed % kSeedsPerLook == 0;
    cover::Surveyor surveyor(hits);
    WorldOptions world;
    if (looks) world.witness = &surveyor;
    return run(plan_of(seed, plans), world);
  });
  night.seconds += stopwatch.seconds();
  night.next_seed = options.end;
  night.totals.add(runs.totals);
  for (const Report& report : runs.failures) {
    night.failures.push_back(report);
    write_plan(plan_of(report.seed, plans), (folder / plan_name(report)).string());
    fmt::print("seed {}: {}\n", report.seed, text_of(*report.failure));
  }
}

int night(const NightFlags& flags) {
  const fs::path folder = flags.folder;
  fs::create_directories(folder);
  Night night = go_on_or_begin(folder, flags);
  if (night.next_seed > 0) fmt::print("goes on at seed {}\n", night.next_seed);
  const Stopwatch stopwatch;
  const auto hours = [&] { return stopwatch.seconds() / 3600; };
  do {
    run_slice(night, flags, folder);
    keep(night, folder);
    fmt::print("{} seeds, {:.0f} per second, {} commits, {} aborts, {} views, {}; {:.2f} of {:g} h\n",
               night.totals.seeds, static_cast<double>(night.totals.seeds) / night.seconds, night.totals.commits,
               night.totals.aborts, night.totals.views, counted(night.failures.size(), "failure"), hours(),
               flags.hours);
    std::fflush(stdout);
  } while (hours() < flags.hours && night.failures.size() < kMostFailures);
  fmt::print("the report: {}\n", (folder / "report.md").string());
  if (night.failures.empty()) {
    const std::string doubts = doubts_about(night);
    if (doubts.empty()) return kExitPass;
    fmt::print(stderr, "clean, but: {}\n", doubts);
    return kExitGoal;
  }
  const std::string first = (folder / plan_name(night.failures.front())).string();
  fmt::print(stderr, "to make it small: lockstep sim shrink {}\nlockstep sim replay {}\n", first, first);
  return exit_code_of(*night.failures.front().failure);
}

}  // namespace

Run add_night(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("night", "runs seeds for hours, with a report; continues where it stopped");
  const auto flags = std::make_shared<NightFlags>();
  command->add_option("folder", flags->folder, "folder of the report and of plans that failed")
      ->required()
      ->check(file_name());
  command->add_option("--hours", flags->hours, "start no slice of seeds after so many hours")
      ->check(real_number(0, 10'000))
      ->capture_default_str();
  command->add_option("--jobs", flags->jobs, "processes")->check(CLI::Range(1U, kMostJobs));
  command->add_option("--slice", flags->slice, "seeds after which the report is written")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}))
      ->capture_default_str();
  command->add_option("--max-peers", flags->max_peers, "limit of drawn hosts")
      ->check(CLI::Range(2U, kMaxDrawnPeers))
      ->capture_default_str();
  return [flags] { return night(*flags); };
}

}  // namespace lockstep::sim
