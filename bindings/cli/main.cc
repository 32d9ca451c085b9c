// The `lockstep` command. Each subcommand has its own file; this file selects the subcommand.
#include <fmt/core.h>
#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "bindings/cli/command.h"
#include "lockstep.h"
#include "sim/cli/cli.h"
#include "sim/cli/usage.h"
#include "sim/words/nearest.h"

namespace lockstep::cli {
namespace {

constexpr auto kDescription = "Fault-tolerant collectives: peers join, leave and fail while they all-reduce.";

constexpr auto kFooter = R"(
Start here:
  lockstep demo                                kills, stops and starts peers of a run, and compares their states
  lockstep bench --peers 4                     measures an all-reduce among 4 peers on this machine
  lockstep coordinator --listen :4000          one per run; then, on each machine:
  lockstep bench --coordinator host:4000 --peers 3
  lockstep status host:4000 --watch            members, rounds and rates
  lockstep sim run --seed 7                    the same core in virtual time, from one seed

Exit codes:
  0 done    1 failed, or a result was wrong    2 wrong usage    3 no coordinator answers    130 interrupted
  `lockstep sim` also: 10 safety, 11 liveness, 12 assertion or crash, 13 nondeterminism, 14 the run did not end,
  15 a goal was not met

`lockstep <command> --help` lists options and examples.)";

int usage(const std::string& text, std::string_view command) {
  fmt::print(stderr, "lockstep: {}\n`lockstep {}{}--help` explains.\n", text, command, command.empty() ? "" : " ");
  return kExitUsage;
}

int run(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the file size limit fails instead of ending the process
  CLI::App app(kDescription, "lockstep");
  app.formatter(sim::help_formatter());
  app.footer(kFooter);
  app.set_version_flag("--version", fmt::format("lockstep {}", lockstep_version_string()));
  app.get_formatter()->column_width(38);

  std::vector<std::pair<CLI::App*, Run>> commands;
  for (const auto add : {add_demo, add_bench, add_coordinator, add_status, add_demo_peer}) {
    Run body = add(app);
    CLI::App* const declared = app.get_subcommands([](CLI::App*) { return true; }).back();
    commands.emplace_back(declared, std::move(body));
  }
  // `lockstep sim` parses its own options; here it only appears in the help.
  app.add_subcommand("sim", "the core in virtual time on a network that fails, from one seed");

  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word.empty()) {
    fmt::print("{}", app.help());
    return kExitUsage;
  }
  if (word == "sim") return sim::sim_main(argc - 1, argv + 1);
  std::vector<std::string> names;
  bool known = word.starts_with("-");
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    known = known || command->get_name() == word;
    if (!command->get_group().empty()) names.push_back(command->get_name());  // hidden commands have no group
  }
  if (!known) {
    return usage(
        fmt::format("unknown command '{}'{} (one of: {})", word, sim::did_you_mean(word, names), fmt::join(names, " ")),
        "");
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const CLI::App& command = chosen.empty() ? app : *chosen.front();
    return usage(sim::wrong_usage(error, command), command.get_name());
  }
  for (const auto& [command, body] : commands) {
    if (command->parsed()) return body();
  }
  return usage("no command was given", "");
}

}  // namespace
}  // namespace lockstep::cli

int main(int argc, char** argv) {
  using namespace lockstep::cli;  // NOLINT(google-build-using-namespace): main() cannot be in a namespace
  try {
    const int code = run(argc, argv);
    // The disk is full or the pipe is closed: the output is lost.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw Failure(kExitFailed, fmt::format("cannot write to stdout: {}", std::strerror(errno)));
    }
    return code;
  } catch (const Failure& failure) {
    std::fflush(stdout);
    fmt::print(stderr, "lockstep: {}\n", failure.what());
    return failure.code();
  } catch (const std::exception& error) {
    std::fflush(stdout);
    fmt::print(stderr, "lockstep: {}\n", error.what());
    return kExitFailed;
  }
}
