#include "sim/cli/cli.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "sim/cli/command.h"
#include "sim/cli/usage.h"
#include "sim/words/nearest.h"

namespace lockstep::sim {
namespace {

constexpr auto kFooter = R"(
Exit codes:
  0 pass    2 wrong usage    10 safety    11 liveness    12 assertion or crash    13 nondeterminism
  14 the run did not end    15 a goal was not met    16 a journal is incomplete

The last line of every failure is the one command that reproduces it.)";

int usage(const std::string& text, const std::string& command) {
  fmt::print(stderr, "lockstep sim: {}\n`lockstep sim {}{}--help` explains.\n", text, command,
             command.empty() ? "" : " ");
  return kExitUsage;
}

}  // namespace

int sim_main(int argc, char** argv) {
  CLI::App app("Runs the core in virtual time on a network that fails, from one seed.", "lockstep sim");
  app.formatter(help_formatter());
  app.footer(kFooter);
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, Run>> commands;
  std::vector<std::string> names;
  for (const auto add : {add_run, add_predict, add_replay, add_scenario, add_sweep, add_shrink, add_explain, add_corpus,
                         add_audit, add_det, add_cover, add_mutants, add_night}) {
    Run body = add(app);
    CLI::App* const declared = app.get_subcommands([](CLI::App*) { return true; }).back();
    names.push_back(declared->get_name());
    commands.emplace_back(declared, std::move(body));
  }
  const std::string word = argc > 1 ? argv[1] : "";
  if (word.empty()) {
    fmt::print("{}", app.help());
    return kExitUsage;
  }
  if (!word.starts_with("-") && std::find(names.begin(), names.end(), word) == names.end()) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : " ") + name;
    return usage("unknown command '" + word + "'" + did_you_mean(word, names) + " (one of: " + all + ")", "");
  }
  std::string chosen;
  try {
    app.parse(argc, argv);
    for (const auto& [command, body] : commands) {
      if (!command->parsed()) continue;
      chosen = command->get_name();
      return body();
    }
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    const auto parsed = app.get_subcommands();
    const CLI::App& command = parsed.empty() ? app : *parsed.front();
    return usage(wrong_usage(error, command), parsed.empty() ? "" : command.get_name());
  } catch (const UsageError& error) {
    return usage(error.what(), chosen);
  }
  return usage("no command was given", "");
}

}  // namespace lockstep::sim
