// Common parts of the subcommands of `lockstep`: declaration, failures, exit codes.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace lockstep::cli {

// Documented in `lockstep --help`; `lockstep sim` has further codes (sim/cli/cli.h).
enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,         // the command was executed and failed, or a result was wrong
  kExitUsage = 2,          // the command line was invalid; nothing was done
  kExitNobodyAnswers = 3,  // no coordinator answers at the address
  kExitInterrupted = 130,  // Ctrl-C, as in shells
};

// Ends the command with a sentence on stderr.
class Failure : public std::runtime_error {
 public:
  Failure(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Each function declares a subcommand with its options. The returned function runs after the command line was parsed
// and returns the exit code.
using Run = std::function<int()>;
Run add_coordinator(CLI::App& app);
Run add_status(CLI::App& app);
Run add_evict(CLI::App& app);
Run add_doctor(CLI::App& app);
Run add_token(CLI::App& app);
Run add_bench(CLI::App& app);
Run add_demo(CLI::App& app);
Run add_demo_peer(CLI::App& app);  // hidden: the processes of the demo

}  // namespace lockstep::cli
