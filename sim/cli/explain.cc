// `lockstep sim explain`: what led to a failure, in words and in pictures.
#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "sim/cli/command.h"
#include "sim/cli/plan_source.h"
#include "sim/cli/trial.h"
#include "sim/cli/usage.h"
#include "sim/explain/historian.h"
#include "sim/explain/history_json.h"
#include "sim/explain/listing.h"
#include "sim/explain/page.h"
#include "sim/explain/perfetto.h"
#include "sim/explain/slice.h"
#include "sim/world/world.h"

namespace lockstep::sim {
namespace {

constexpr double kRunLimit = 60;  // seconds: the bug has made a step of core endless

struct ExplainFlags {
  PlanSource source;
  std::string html;
  std::string perfetto;
  std::string json;
  std::optional<MomentId> moment;
  std::size_t lines = kSliceMoments;
};

struct Told {
  History history;
  Report report;
};

// A run that kills the process is recorded until just before the end.
Told told_by(const Plan& plan) {
  const Tried tried = try_plan(plan, kRunLimit);
  if (tried.given_up) throw UsageError(fmt::format("the run was given up after {:.0f} s", kRunLimit));
  const auto& failure = tried.report.failure;
  const bool crash = failure && failure->promise == "crash";
  Historian historian(plan, crash ? failure->event : 0);
  WorldOptions options;
  options.witness = &historian;
  Report report;
  try {
    report = run(plan, options);
  } catch (const Historian::SeenEnough&) {
  }
  History history = historian.finish(crash ? failure : std::nullopt);
  if (failure && failure->promise == "goal")
    history.failure = failure;  // a goal of the whole run: no single moment broke it
  return {std::move(history), std::move(report)};
}

// The output files must differ from each other and from the plan.
void refuse_the_same_file_twice(const ExplainFlags& flags) {
  std::map<std::filesystem::path, std::string> taken;
  for (const auto& [what, path] : {std::pair{"the plan", flags.source.file}, std::pair{"--html", flags.html},
                                   std::pair{"--perfetto", flags.perfetto}, std::pair{"--json", flags.json}}) {
    std::error_code error;
    const bool device = std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
    if (path.empty() || device) continue;
    const auto [at, fresh] = taken.emplace(std::filesystem::weakly_canonical(path, error), what);
    if (!fresh) throw UsageError(fmt::format("{} and {} are the same file, {}", at->second, what, path));
  }
}

void write_file(const std::string& path, const std::string& what, const std::string& text) {
  if (path.empty()) return;
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw UsageError(path + ": cannot be written: " + std::strerror(errno));
  fmt::print("{} {}\n", what, path);
}

MomentId moment_to_explain(const ExplainFlags& flags, const History& history) {
  if (!flags.moment) return history.failed;
  if (*flags.moment >= history.moments.size()) {
    throw UsageError(fmt::format("--moment {}: this run has the moments 0 to {}", *flags.moment,
                                 history.moments.empty() ? 0 : history.moments.size() - 1));
  }
  return *flags.moment;
}

int explain(const ExplainFlags& flags) {
  const Plan plan = flags.source.plan();
  const auto [history, report] = told_by(plan);
  const std::string again = std::string("lockstep sim ") + (flags.source.seed ? "run" : "replay") + flags.source.text();
  const MomentId of = moment_to_explain(flags, history);
  const std::vector<MomentId> slice = causal_slice(history, of, flags.lines);
  if (of == kNoMoment) {
    // A goal belongs to the whole run: no single moment misses it.
    fmt::print(
        "no promise was broken{}\n{} moments, {} messages, {} calls; --moment N explains one, --html shows all\n",
        history.failure ? ", but a goal was missed: " + history.failure->text : "", history.moments.size(),
        history.messages.size(), history.calls.size());
  } else {
    if (history.failure) fmt::print("{}\n", text_of(*history.failure));
    fmt::print("what led to {}: {} of {} moments\n{}", history.failed == of ? "it" : fmt::format("#{}", of),
               slice.size(), of + 1, listing_of(history, slice));
  }
  if (!flags.html.empty() || !flags.json.empty()) {
    const nlohmann::json json = to_json(history, slice, again);
    write_file(flags.html, "timeline:", page_of(json));
    write_file(flags.json, "json:", json.dump() + "\n");
  }
  if (!flags.perfetto.empty()) {
    write_file(flags.perfetto, "for https://ui.perfetto.dev:", perfetto_of(history).dump() + "\n");
  }
  std::fflush(stdout);
  note_what_never_began(plan, report);
  if (!history.failure) return kExitPass;
  fmt::print(stderr, "{}\n", again);
  return exit_code_of(*history.failure);
}

}  // namespace

Run add_explain(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("explain", "the causes of a failure: its causal slice, and a timeline");
  const auto flags = std::make_shared<ExplainFlags>();
  flags->source.declare(*command);
  command->add_option("--html", flags->html, "write the timeline: one page, for a browser")->check(file_name());
  command->add_option("--perfetto", flags->perfetto, "write a trace for ui.perfetto.dev or chrome://tracing")
      ->check(file_name());
  command->add_option("--json", flags->json, "write everything as JSON")->check(file_name());
  command->add_option("--moment", flags->moment, "explain this one (the #N of a listing) instead of the failure");
  command->add_option("--lines", flags->lines, "the most moments that are told")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return [flags] {
    refuse_the_same_file_twice(*flags);
    flags->source.mutant.plant();
    return explain(*flags);
  };
}

}  // namespace lockstep::sim
