// `lockstep sim replay`: a plan from a file, or what a flight recorder wrote.
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "sim/cli/command.h"
#include "sim/cli/mutants.h"
#include "sim/cli/replay_recording.h"
#include "sim/cli/report_json.h"
#include "sim/cli/usage.h"
#include "sim/workload/text.h"
#include "sim/world/world.h"

namespace lockstep::sim {
namespace {

struct ReplayFlags {
  MutantFlag mutant;
  std::string file;
  std::uint64_t until = 0;
  bool json = false;
  bool streams = false;
  bool watch = false;
  std::string plan;
};

int replay(const ReplayFlags& flags) {
  const Plan plan = read_either(flags.file, {});
  WorldOptions options;
  if (!flags.json) options.trace = print_line;
  options.trace_streams = flags.streams;
  options.until = flags.until;
  const Report report = run(plan, options);
  if (flags.json) {
    fmt::print("{}\n", to_json(report).dump());
  } else {
    fmt::print("{}, {}, {}; seed {}, hash {}\n", counted(report.commits, "commit"), counted(report.aborts, "abort"),
               counted(report.views, "view"), report.seed, hex(report.hash));
  }
  std::fflush(stdout);
  if (flags.until == 0) note_what_never_began(plan, report);
  if (!report.failure) return kExitPass;
  fmt::print(stderr, "{}\nlockstep sim replay {}{}\n", text_of(*report.failure), flags.file, flags.mutant.text());
  return exit_code_of(*report.failure);
}

}  // namespace

Run add_replay(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("replay", "runs a plan from a file with its trace, or replays a flight recording");
  const auto flags = std::make_shared<ReplayFlags>();
  command->add_option("plan", flags->file, "a plan, as `run --write-plan` writes it, a scenario, or a flight recording")
      ->required()
      ->check(file_name());
  command->add_option("--until", flags->until, "stop after so many events; in a recording: after this input")
      ->check(whole_number());
  command->add_flag("--json", flags->json, "the report as JSON, no trace");
  command->add_flag("--streams", flags->streams, "also every stream");
  command->add_flag("--watch", flags->watch, "a recording: tell every input, and all that the machine asks for then");
  command->add_option("--plan", flags->plan, "a coordinator's recording: write a plan of what it saw to this file")
      ->check(file_name());
  flags->mutant.declare(*command);
  return [flags, command] {
    if (flags->json) refuse(*command, {"--streams", "--watch"}, "with --json, which prints no trace");
    flags->mutant.plant();
    if (holds_recording(flags->file)) {
      refuse(*command, {"--streams"}, "with a recording: --watch tells all of it");
      if (was_given(*command, "--plan")) refuse(*command, {"--until", "--watch", "--json"}, "with --plan");
      return replay_recording({flags->file, flags->until, flags->watch, flags->json, flags->plan});
    }
    refuse(*command, {"--watch", "--plan"}, "with a plan: they are for flight recordings");
    return replay(*flags);
  };
}

}  // namespace lockstep::sim
