#include "sim/cli/night_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/base/assert.h"
#include "sim/cli/command.h"
#include "sim/cli/report_json.h"
#include "sim/cover/judge.h"
#include "sim/cover/page.h"
#include "sim/workload/text.h"

namespace lockstep::sim {
namespace {

// A night in which little happens proves little: these events must happen in a thousand seeds.
struct Least {
  const char* name;
  std::uint64_t per_thousand;
};
constexpr Least kLeast[] = {{"commits", 50'000}, {"aborts", 900}, {"views", 12'000}, {"kills", 800}, {"cuts", 1'000}};

std::string too_little_in(const Totals& totals) {
  std::string out;
  if (totals.seeds < 1000) return out;
  for (const auto& [name, per_thousand] : kLeast) {
    const std::uint64_t count = count_of(totals, name);
    if (count * 1000 >= per_thousand * totals.seeds) continue;
    out += fmt::format("{}{} {} in {} seeds, at least {} in a thousand are wanted", out.empty() ? "" : "; ", count,
                       name, totals.seeds, per_thousand);
  }
  return out;
}

const cover::Reasons& reasons() {
  static const Result<cover::Reasons> kAll = cover::reasons_of(cover::impossible(), cover::unreached());
  LOCKSTEP_ASSERT(kAll.ok());
  return *kAll;
}

}  // namespace

nlohmann::json to_json(const Night& night) {
  nlohmann::json json = to_json(night.totals, night.seconds);
  json["build"] = night.build;
  json["max_peers"] = night.max_peers;
  json["next_seed"] = night.next_seed;
  json["cells"] = cover::to_json(night.cells);
  json["failures"] = nlohmann::json::array();
  for (const Report& report : night.failures) json["failures"].push_back(to_json(report));
  return json;
}

Night night_from(const nlohmann::json& json) {
  Night night;
  night.build = json.at("build");
  night.max_peers = json.at("max_peers");
  night.next_seed = json.at("next_seed");
  night.seconds = json.at("seconds");
  night.totals = totals_from(json);
  Result<cover::Tally> cells = cover::tally_from(json.at("cells"));
  if (!cells) throw std::runtime_error(cells.error().text);
  night.cells = *std::move(cells);
  for (const auto& report : json.at("failures")) night.failures.push_back(report_from(report));
  return night;
}

std::string plan_name(const Report& report) { return fmt::format("seed-{}.toml", report.seed); }

std::string report_of(const Night& night, const std::string& date) {
  const auto rate = [&](double value) { return night.seconds > 0 ? value / night.seconds : 0; };
  const double thousands = static_cast<double>(night.totals.seeds) / 1000;
  std::string out = fmt::format(
      "# A night of the simulator\n\n"
      "{} seeds of build {}, 2 to {} peers, until {}: {}\n\n"
      "| | |\n|---|---|\n"
      "| real time | {:.2f} h |\n| simulated time | {:.0f} h |\n| seeds | 0 .. {} ({} in bytes mode) |\n"
      "| seeds per second | {:.1f} |\n| events per second | {:.0f} |\n| hash of all | {} |\n",
      night.totals.seeds, night.build, night.max_peers, date,
      night.failures.empty() ? "clean; " + confidence_of(night.totals) : counted(night.failures.size(), "failure"),
      night.seconds / 3600, night.totals.simulated_s / 3600, night.next_seed, night.totals.bytes_seeds,
      rate(static_cast<double>(night.totals.seeds)), rate(static_cast<double>(night.totals.events)),
      hex(night.totals.hash));
  out += "\n| what happened | in all | in 1,000 seeds | at least |\n|---|---|---|---|\n";
  visit_counts(
      [&](std::string_view name, std::uint64_t count) {
        const auto least =
            std::find_if(std::begin(kLeast), std::end(kLeast), [&](const Least& entry) { return entry.name == name; });
        const double each = static_cast<double>(count) / std::max(thousands, 0.001);
        const bool enough = least == std::end(kLeast) || each >= static_cast<double>(least->per_thousand);
        out += fmt::format(
            "| {} | {} | {:.0f} | {} |\n", name, count, each,
            least == std::end(kLeast) ? "" : fmt::format("{}{}", least->per_thousand, enough ? "" : ": MISSED"));
      },
      static_cast<const Counts&>(night.totals));
  const cover::Verdict verdict = cover::judge(night.cells, reasons());
  out += fmt::format(
      "\n## States that have met inputs, messages and faults\n\n"
      "One seed in {} was looked at. `lockstep sim cover` has all matrices, and runs that are after what seeds seldom "
      "meet.\n\n"
      "```\n{}{}```\n",
      kSeedsPerLook, cover::summary_of(night.cells, verdict), cover::surprises_of(night.cells, reasons(), verdict));
  if (night.failures.empty()) return out;
  out += "\n## Failures\n\n";
  for (const Report& report : night.failures) {
    out += fmt::format("- seed {}: {}\n  `lockstep sim shrink {}`\n", report.seed, text_of(*report.failure),
                       plan_name(report));
  }
  return out;
}

std::string doubts_about(const Night& night) {
  std::string little = too_little_in(night.totals);
  const std::size_t stale = cover::judge(night.cells, reasons()).stale.size();
  if (stale == 0) return little;
  return fmt::format("{}{}{} hit that cannot be, by sim/cover/impossible.cc: see the report", little,
                     little.empty() ? "" : "; ", counted(stale, "cell was", "cells were"));
}

}  // namespace lockstep::sim
