// `lockstep sim scenario`: lists and checks scenarios, and prints a first one.
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "sim/cli/command.h"
#include "sim/scenario/keys.h"

namespace lockstep::sim {
namespace {

constexpr auto kTemplate = R"(# Which real incident this stands for. Every key: `lockstep sim scenario keys`.
name  = "a peer dies while another one joins"
story = "spot instances: one is taken away in the minute in which its replacement comes"
peers = 4                                   # or a range: [3, 8]; these are hosts a to d; those who join, e and on
net   = {{ profile = "world", rate = "200Mbit/s" }}  # rack, region or world; latency = "20ms", jitter, window
work  = ["2x all_reduce 1MiB f32 sum", "barrier"]    # what every peer launches in every step
faults_end = "8s"                           # then the network heals, and everything must come to its end

[[do]]
when  = "launch 12"                         # or at = "2s"; when = "commit 6", "view 3"; delay = "1ms" after it
crash = "X"                                 # X, Y, Z: whom the seed binds; also a, "b c", any
back  = ["1s", "3s"]                        # starts again after so long; a range is drawn

[[do]]
at   = "1s"
join = "e"

[[do]]
at  = "3s"
cut = "b -> c"                              # one way; "b <-> c" both; split = "a b | c d"; slow, reset, silence
for = "2s"

[expect]
commits = ">= 20"
views   = ">= 3"
within  = "90s"                             # of simulated time
)";

struct ScenarioFlags {
  std::string folder = "sim/scenarios";
  std::vector<std::string> files;
};

int list(const ScenarioFlags& flags) {
  for (const std::string& file : toml_files_in({flags.folder})) {
    if (!is_scenario(read_text(file))) continue;
    const Scenario scenario = read_scenario(file);
    fmt::print("{}\n    {}\n", file, scenario.story.empty() ? scenario.name : scenario.story);
  }
  return kExitPass;
}

int check(const ScenarioFlags& flags) {
  int code = kExitPass;
  for (const std::string& file : flags.files) {
    try {
      read_either(file, {});
      fmt::print("{}: well-formed\n", file);
    } catch (const UsageError& error) {  // the others are still read
      std::fflush(stdout);
      fmt::print(stderr, "{}\n", error.what());
      code = kExitUsage;
    }
  }
  return code;
}

}  // namespace

Run add_scenario(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("scenario", "stories of incidents: list, check, new, keys");
  command->require_subcommand(1);
  const auto flags = std::make_shared<ScenarioFlags>();
  CLI::App* const list_command = command->add_subcommand("list", "lists the scenarios of a folder with their stories");
  list_command->add_option("folder", flags->folder, "where they lie")->capture_default_str();
  CLI::App* const check_command = command->add_subcommand("check", "reads scenario files and reports their errors");
  check_command->add_option("files", flags->files, "scenarios or plans")->required();
  CLI::App* const new_command = command->add_subcommand("new", "prints a template of a scenario");
  CLI::App* const keys_command = command->add_subcommand("keys", "prints every key that a scenario may have");
  return [=] {
    if (list_command->parsed()) return list(*flags);
    if (check_command->parsed()) return check(*flags);
    if (new_command->parsed()) fmt::print(kTemplate);
    if (keys_command->parsed()) fmt::print("{}", scenario_reference());
    return static_cast<int>(kExitPass);
  };
}

}  // namespace lockstep::sim
