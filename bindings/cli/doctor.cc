// `lockstep doctor`: checks this machine, and the way to a coordinator. Each part of bindings/cli/doctor/ does one
// step: it gathers facts, judges them, or shows what was found.
#include <fmt/core.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

#include "bindings/cli/command.h"
#include "bindings/cli/doctor/coordinator_checks.h"
#include "bindings/cli/doctor/coordinator_facts.h"
#include "bindings/cli/doctor/finding.h"
#include "bindings/cli/doctor/machine_checks.h"
#include "bindings/cli/doctor/machine_facts.h"
#include "bindings/cli/doctor/report.h"
#include "bindings/cli/protection.h"
#include "core/base/time.h"
#include "lockstep.h"
#include "sim/cli/usage.h"

namespace lockstep::cli {
namespace {

struct DoctorOptions {
  const CLI::Option* coordinator_option = nullptr;
  std::string coordinator;
  transport::Protection protection;
  bool json = false;
  double timeout_s = 3;
};

int examine(const DoctorOptions& options) {
  doctor::Findings findings = doctor::check_machine(doctor::gather_machine(lockstep_version_string()));
  if (options.coordinator_option->count() > 0) {  // an empty text, such as a variable that is not set, is an error
    const Duration patience = nanoseconds(static_cast<std::int64_t>(options.timeout_s * 1e9));
    const auto facts = doctor::gather_coordinator(options.coordinator, options.protection, patience);
    if (!facts) throw Failure(kExitUsage, facts.error().text);
    doctor::Findings more = doctor::check_coordinator(*facts);
    findings.insert(findings.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  if (options.json) {
    fmt::print("{}\n", doctor::json_of(findings).dump(2));
  } else {
    fmt::print("{}", doctor::text_of(findings));
  }
  return doctor::worst_of(findings) == doctor::Grade::kFailed ? kExitFailed : kExitOk;
}

}  // namespace

Run add_doctor(CLI::App& app) {
  CLI::App* command = app.add_subcommand("doctor", "checks this machine, and the way to a coordinator");
  auto options = std::make_shared<DoctorOptions>();
  options->coordinator_option =
      command->add_option("coordinator", options->coordinator,
                          "run token; or HOST:PORT, file:PATH, env:NAME; without it: this machine only");
  add_protection(*command, options->protection);
  command->add_flag("-j,--json", options->json, "as JSON");
  command->add_option("-t,--timeout", options->timeout_s, "s to wait for an answer of each address")
      ->check(sim::real_number(0.01, 86'400))
      ->capture_default_str();
  command->footer(R"(
Each line is a check: ok, warning or failed, what was found, and what to do about it.
This machine: build, processor, memory, descriptors, congestion control, memory of streams, clock, addresses.
A coordinator: its names and addresses, all dialled at once; whether it is a coordinator, and accepts the token; the
round trip to it; and what it says about the run. The doctor does not join the run, and shows no secret.
Exit code 0: nothing failed; there may be warnings.
Exit code 1: a check failed.
Exit code 2: the command line is wrong, or names no coordinator.

Examples:
  lockstep doctor
  lockstep doctor env:LOCKSTEP_COORDINATOR
  lockstep doctor coordinator.example:4000 --insecure --json | jq '.findings[] | select(.grade != "ok")')");
  return [options] { return examine(*options); };
}

}  // namespace lockstep::cli
