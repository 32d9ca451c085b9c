#include "sim/cli/mutants.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "core/base/mutant.h"
#include "sim/cli/command.h"
#include "sim/cli/detection.h"
#include "sim/cli/hunt.h"
#include "sim/cli/rotation.h"
#include "sim/cli/stopwatch.h"
#include "sim/cli/usage.h"
#include "sim/words/nearest.h"
#include "sim/words/words.h"

namespace lockstep::sim {
namespace {

std::string before(const Hunt& hunt) {
  std::string text;
  for (const auto& [promise, seeds] : hunt.others()) {
    text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", promise, seeds);
  }
  return text;
}

const char* verdict_of(const Hunt& hunt) {
  if (!hunt.median()) return "MISSED";
  return hunt.rarer() ? "RARER" : hunt.promise().c_str();
}

constexpr auto kMutantRow = "{:<27} {:<14} {:<7} {:>7} {:>7} {:>8} {:>8}  {}\n";

void print_head() {
  fmt::print(kMutantRow, "mutant", "must break", "broken", "median", "budget", "searches", "seconds",
             "other promises before");
}

void print_row(const Hunt& hunt) {
  const Quarry& quarry = hunt.quarry();
  fmt::print(kMutantRow, quarry.entry.id, quarry.entry.promises, verdict_of(hunt),
             hunt.median() ? std::to_string(*hunt.median()) : "-", quarry.budget,
             fmt::format("{}/{}", hunt.detection().found, hunt.searches()), fmt::format("{:.1f}", hunt.seconds()),
             before(hunt));
  std::fflush(stdout);
}

nlohmann::json json_of(const Hunt& hunt) {
  const Quarry& quarry = hunt.quarry();
  nlohmann::json j = {{"id", quarry.entry.id},
                      {"bug", quarry.entry.bug},
                      {"promises", split_words(quarry.entry.promises)},
                      {"budget", quarry.budget},
                      {"found", hunt.median().has_value()},
                      {"searches", hunt.searches()},
                      {"searches_found", hunt.detection().found},
                      {"seeds", hunt.detection().seeds},
                      {"rarer", hunt.rarer()},
                      {"others", hunt.others()},
                      {"seconds", hunt.seconds()}};
  if (hunt.median()) j["median_seeds"] = *hunt.median();
  if (quarry.recorded) j["recorded"] = {{"found", quarry.recorded->found}, {"seeds", quarry.recorded->seeds}};
  if (hunt.promise().empty()) return j;
  j["promise"] = hunt.promise();
  j["seed"] = hunt.seed();
  j["text"] = hunt.text();
  return j;
}

Mutant known_mutant(const std::string& id) {
  std::vector<std::string> ids;
  for (const MutantEntry& entry : kMutants) {
    if (entry.id == id) return entry.mutant;
    ids.emplace_back(entry.id);
  }
  throw UsageError("unknown mutant '" + id + "'" + did_you_mean(id, ids));
}

Mutant mutant_of(const std::string& id) {
  if (!kMutantsBuilt) throw UsageError(kNoMutants);
  return known_mutant(id);
}

}  // namespace

void check_mutant(const std::string& id) { (void)known_mutant(id); }

void MutantFlag::declare(CLI::App& command) {
  CLI::Option* const option = command.add_option("--mutant", id, "plant this bug first");
  if (!kMutantsBuilt) option->group("");  // not in the help
}

void MutantFlag::plant() const {
  if (!id.empty()) lockstep::plant(mutant_of(id));
}

std::string MutantFlag::text() const { return id.empty() ? "" : " --mutant " + id; }

namespace {

std::vector<Hunt> hunts_of(const HuntOptions& options, const Detections& recorded) {
  std::vector<Quarry> all;
  for (const MutantEntry& entry : kMutants) {
    Quarry& quarry = all.emplace_back();
    quarry.entry = entry;
    quarry.budget = options.seeds != 0 ? options.seeds : static_cast<std::uint64_t>(entry.rarity);
    quarry.searches = options.searches;
    quarry.records = options.record;
    const auto at = recorded.find(entry.id);
    if (at != recorded.end()) quarry.recorded = at->second;
  }
  std::vector<double> costs;
  costs.reserve(all.size());
  for (const Quarry& quarry : all) costs.push_back(expected_seeds(quarry));
  const std::vector<std::uint32_t> parts = balanced_parts(costs, options.parts);
  std::vector<Mutant> wanted;
  for (const std::string& id : options.only) wanted.push_back(mutant_of(id));
  std::vector<Hunt> hunts;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), all[i].entry.mutant) == wanted.end()) continue;
    if (parts[i] != options.part - 1) continue;
    if (options.record) all[i].recorded.reset();
    hunts.emplace_back(all[i]);
  }
  return hunts;
}

void print_sum(const std::vector<Hunt>& hunts, double seconds) {
  const auto count = [&](auto is) { return std::count_if(hunts.begin(), hunts.end(), is); };
  fmt::print(
      "{} mutants, {} found by a promise named for them, {} missed, {} found half as often as recorded; {:.0f} s\n",
      hunts.size(), count([](const Hunt& hunt) { return hunt.median().has_value(); }),
      count([](const Hunt& hunt) { return !hunt.median(); }),
      count([](const Hunt& hunt) { return hunt.median() && hunt.rarer(); }), seconds);
}

void print_json(const std::vector<Hunt>& hunts, double seconds) {
  nlohmann::json j = {{"version", 2}, {"seconds", seconds}, {"mutants", nlohmann::json::array()}};
  for (const Hunt& hunt : hunts) j["mutants"].push_back(json_of(hunt));
  fmt::print("{}\n", j.dump(2));
}

void say_why(const Hunt& hunt) {
  const MutantEntry& entry = hunt.quarry().entry;
  const Detection& now = hunt.detection();
  if (!hunt.median()) {
    fmt::print(stderr, "missed {} ({}): {} of {} searches found it in {} seeds each", entry.id, entry.bug, now.found,
               hunt.searches(), hunt.quarry().budget);
  } else {
    const Detection& then = *hunt.quarry().recorded;
    fmt::print(stderr,
               "{} ({}) is found in 1 seed of {:.0f}; recorded is 1 of {:.0f}. If the change of core or of the "
               "simulator is meant to do that: ./run mutants --record --only {}",
               entry.id, entry.bug, 1 / now.rate(), 1 / then.rate(), entry.id);
  }
  if (!hunt.others().empty()) {
    fmt::print(stderr, "; but {}\nlockstep sim run --seed {} --mutant {} --trace", hunt.other_text(), hunt.other_seed(),
               entry.id);
  }
  fmt::print(stderr, "\n");
}

void record(const std::vector<Hunt>& hunts, Detections detections, const std::string& path) {
  std::erase_if(detections, [](const auto& one) {
    return std::none_of(kMutants.begin(), kMutants.end(),
                        [&](const MutantEntry& entry) { return entry.id == one.first; });
  });
  for (const Hunt& hunt : hunts) {
    if (hunt.median()) detections[std::string(hunt.quarry().entry.id)] = hunt.detection();
  }
  write_detections(detections, path);
}

}  // namespace

int hunt_mutants(const HuntOptions& options) {
  if (!kMutantsBuilt) throw UsageError(kNoMutants);
  if (options.record && options.rates.empty()) throw UsageError("--record needs --rates FILE, which it writes");
  const bool rates = !options.rates.empty() && !(options.record && !std::filesystem::exists(options.rates));
  const Detections recorded = rates ? read_detections(options.rates) : Detections();
  std::vector<Hunt> hunts = hunts_of(options, recorded);
  const Stopwatch stopwatch;
  if (!options.json) print_head();
  run_hunts(hunts, std::max(1U, options.jobs), [&](const Hunt& hunt) {
    if (!options.json) print_row(hunt);
  });
  if (options.json) {
    print_json(hunts, stopwatch.seconds());
  } else {
    print_sum(hunts, stopwatch.seconds());
  }
  std::fflush(stdout);
  bool passed = true;
  for (const Hunt& hunt : hunts) {
    if (hunt.passed()) continue;
    say_why(hunt);
    passed = false;
  }
  if (options.record) record(hunts, recorded, options.rates);
  return passed ? kExitPass : kExitSafety;
}

Run add_mutants(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("mutants", "plants bugs, and counts the seeds until each is found");
  const auto options = std::make_shared<HuntOptions>();
  const auto part = std::make_shared<std::string>();
  command->add_option("--only", options->only, "only this mutant; may be repeated");
  command->add_option("--seeds", options->seeds, "at most so many for each search, instead of the mutant's budget");
  command->add_option("--searches", options->searches, "for each mutant; their median must lie within the budget")
      ->check(CLI::Range(1U, kMostSearches));
  command->add_option("--part", *part,
                      "I/N: only the I-th of N parts, which take about as long by the rates of --rates");
  command->add_option("--rates", options->rates, "fail, too, if a mutant is found half as often as this file says")
      ->check(file_name());
  command->add_flag("--record", options->record, "write what is found to the file of --rates instead");
  command->add_option("--jobs", options->jobs, "searches at once")->check(CLI::Range(1U, kMostJobs));
  command->add_flag("--json", options->json, "the same facts as JSON");
  return [options, part] {
    if (!part->empty()) {
      const std::size_t slash = std::min(part->find('/'), part->size());
      const auto i = number_of(part->substr(0, slash));
      const auto n = number_of(part->substr(std::min(slash + 1, part->size())));
      if (!i || !n || *i == 0 || *i > *n || *n > kMutants.size()) {
        throw UsageError("--part takes I/N, as in 1/4, and not '" + *part + "'");
      }
      options->part = static_cast<std::uint32_t>(*i);
      options->parts = static_cast<std::uint32_t>(*n);
    }
    return hunt_mutants(*options);
  };
}

}  // namespace lockstep::sim
