// `lockstep_wan`: programs on a WAN that is made of namespaces of this machine.
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "sim/cli/usage.h"
#include "tests/lab/wan/commands.h"
#include "tests/lab/wan/failure.h"

namespace lockstep::wan {
namespace {

constexpr auto kDescription =
    "Programs on a WAN in a box: each host of a topology is a network namespace of this machine.";

constexpr auto kFooter = R"(
Needs root, or CAP_SYS_ADMIN and CAP_NET_ADMIN, and /dev/net/tun. Leaves nothing behind, however it ends.
Exit codes: 0 done; 1 it failed; 2 wrong usage; 130 interrupted; `run`: that of the program that failed
`lockstep_wan <command> --help` tells more; tests/lab/wan/README.md has the keys of a topology.)";

int usage(const std::string& text) {
  fmt::print(stderr, "lockstep_wan: {}\n`lockstep_wan --help` explains.\n", text);
  return kExitUsage;
}

int run(int argc, char** argv) {
  CLI::App app(kDescription, "lockstep_wan");
  app.formatter(sim::help_formatter());
  app.footer(kFooter);
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, Run>> commands;
  for (const auto add : {add_run, add_measure, add_sync, add_compare, add_yardsticks, add_show, add_enter}) {
    Run body = add(app);
    commands.emplace_back(app.get_subcommands([](CLI::App*) { return true; }).back(), std::move(body));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    return usage(sim::wrong_usage(error, chosen.empty() ? app : *chosen.front()));
  }
  for (const auto& [command, body] : commands) {
    if (command->parsed()) return body();
  }
  return usage("no command was given");
}

}  // namespace
}  // namespace lockstep::wan

int main(int argc, char** argv) {
  using namespace lockstep::wan;  // NOLINT(google-build-using-namespace): main() cannot live in it
  try {
    return run(argc, argv);
  } catch (const Failure& failure) {
    fmt::print(stderr, "lockstep_wan: {}\n", failure.what());
    return failure.code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep_wan: {}\n", error.what());
    return kExitFailed;
  }
}
