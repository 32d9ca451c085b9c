// The `lockstep` command. Each subcommand has its own file; this file selects the subcommand.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
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
#include "core/wire/run_token.h"
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
  lockstep coordinator --listen :4000          one per run, prints a token; then, on each machine:
  lockstep bench --coordinator TOKEN --peers 3
  lockstep token new --tokens run.tokens       another token, for a coordinator that keeps its tokens in this file
  lockstep status TOKEN --watch                members, rounds and rates
  lockstep doctor TOKEN                        checks this machine, and the way to the coordinator
  lockstep evict TOKEN PEER                    takes a peer out of the run; needs a token for administrators
  lockstep sim run --seed 7                    the same core in virtual time, from one seed

Exit codes:
  0 done    1 failed, or a result was wrong    2 wrong usage    3 no coordinator answers    130 interrupted
  `lockstep sim` also: 10 safety, 11 liveness, 12 assertion or crash, 13 nondeterminism, 14 the run did not end,
  15 a goal was not met

`lockstep <command> --help` lists options and examples.)";

// An error on stderr. A word of the command line that it quotes may be a run token.
void complain(std::string_view text) { fmt::print(stderr, "lockstep: {}\n", wire::redacted(text)); }

int usage(std::string_view text, std::string_view command) {
  complain(text);
  fmt::print(stderr, "`lockstep {}{}--help` explains.\n", command, command.empty() ? "" : " ");
  return kExitUsage;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) names.push_back(command->get_name());  // hidden commands have no group
  }
  return names;
}

std::string unknown_command(const std::string& word, const std::vector<std::string>& names) {
  return fmt::format("unknown command '{}'{} (one of: {})", word, sim::did_you_mean(word, names),
                     fmt::join(names, " "));
}

// The mistake in the innermost command that the command line names, such as "token new".
int wrong_usage(const CLI::ParseError& error, const CLI::App& app) {
  const CLI::App* command = &app;
  std::string name;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += (name.empty() ? "" : " ") + command->get_name();
  }
  const auto below = commands_of(*command);
  const auto words = command->remaining();
  if (!below.empty() && !words.empty() && !words.front().starts_with("-")) {
    return usage(unknown_command(words.front(), below), name);
  }
  return usage(sim::wrong_usage(error, *command), name);
}

// `ps` shows the arguments of a process to everybody: the secret of a run token disappears from there.
void hide_tokens(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::string shown = wire::redacted(argument);
    const auto at = std::ranges::mismatch(argument, shown).in1 - argument.begin();
    std::fill(argv[i] + at, argv[i] + argument.size(), '.');
  }
}

int run(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the file size limit fails instead of ending the process
  CLI::App app(kDescription, "lockstep");
  app.formatter(sim::help_formatter());
  app.footer(kFooter);
  app.set_version_flag("--version", fmt::format("lockstep {}", lockstep_version_string()));
  app.get_formatter()->column_width(38);

  std::vector<std::pair<CLI::App*, Run>> commands;
  for (const auto add :
       {add_demo, add_bench, add_coordinator, add_status, add_evict, add_token, add_doctor, add_demo_peer}) {
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
  const auto is_named = [&](const CLI::App* command) { return command->get_name() == word; };
  if (!word.starts_with("-") && app.get_subcommands(is_named).empty()) {
    return usage(unknown_command(std::string(word), commands_of(app)), "");
  }

  try {
    app.parse(argc, argv);
    hide_tokens(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return wrong_usage(error, app);
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
    complain(failure.what());
    return failure.code();
  } catch (const std::exception& error) {
    std::fflush(stdout);
    complain(error.what());
    return kExitFailed;
  }
}
