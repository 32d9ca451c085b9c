// `lockstep coordinator`: a process that decides the membership of a run. The main thread waits for a signal; the
// coordinator's own thread does the work.
#include <fmt/core.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "bindings/cli/command.h"
#include "bindings/cli/coordinator_log.h"
#include "bindings/cli/core_dumps.h"
#include "bindings/cli/protection.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "sim/cli/usage.h"
#include "transport/coordinator_server.h"
#include "transport/flight.h"

namespace lockstep::cli {
namespace {

struct CoordinatorOptions {
  std::string listen = ":4000";
  std::int64_t heartbeat_ms = 500;
  std::int64_t silence_ms = 3000;
  std::int64_t greeting_ms = 3000;
  std::string log = "text";
  bool verbose = false;
  std::string flight_file;
  bool dial_back = true;
  transport::AccessOptions access;
};

// Checked at the start, and not when the file is needed. Empty: the file can be written.
std::string validate_flight_file(const std::string& file) {
  return transport::unwritable_file(file).value_or(std::string());
}

// A run of 1024 members plus strangers needs more descriptors than the usual initial limit of 1024.
void raise_file_limit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

// A coordinator that listens on loopback may have none either, which is known only later.
bool has_secrets(const CoordinatorOptions& options) { return !options.access.insecure; }

bool write_flight(transport::CoordinatorServer& server, const std::string& file, bool ends) {
  const auto written = server.write_flight(file, ends ? "the coordinator was asked to end" : "asked for");
  fmt::print(stderr, "{}\n", written ? "flight recording written to " + *written : written.error().text);
  return written.ok();
}

int serve(const CoordinatorOptions& options) {
  raise_file_limit();
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread starts, so that sigwait() receives all signals

  transport::CoordinatorServer::Options server_options;
  server_options.listen = options.listen;
  server_options.access = options.access;
  server_options.dial_back = options.dial_back;
  server_options.flight_file = options.flight_file;
  server_options.machine.heartbeat = milliseconds(options.heartbeat_ms);
  server_options.machine.silence = milliseconds(options.silence_ms);
  server_options.machine.greeting = milliseconds(options.greeting_ms);
  if (has_secrets(options)) leave_no_core_dump();
  CoordinatorLog log(options.log == "json", options.verbose);
  if (options.log != "none") {
    server_options.log = [&log](std::string_view line) { log.note(line); };
    server_options.events = [&log](const trace::Event& event) { log.event(event); };
  }
  auto server = transport::CoordinatorServer::start(std::move(server_options));
  if (!server) {
    const bool usage = server.error().status == Status::kInvalidArgument;
    throw Failure(usage ? kExitUsage : kExitFailed, server.error().text);
  }
  fmt::print("lockstep coordinator listening on {}\n", (*server)->address().text());
  if (const std::string& token = (*server)->token(); !token.empty()) {
    fmt::print("peers connect with {}\n", token);
  } else if (!options.access.token_file.empty()) {
    fmt::print(stderr,
               "no peer can join: {0} has no valid token that any member may use; make one with `lockstep token "
               "new --tokens {0}`\n",
               options.access.token_file);
  } else if (options.access.insecure) {
    fmt::print(stderr, "insecure: no TLS; whoever reaches this port can join the run, read and change it\n");
  }
  std::fflush(stdout);

  bool written = true;  // the last recording
  for (int signal = SIGUSR1; signal == SIGUSR1;) {
    sigwait(&signals, &signal);
    if (!options.flight_file.empty()) {
      written = write_flight(**server, options.flight_file, signal != SIGUSR1);
    } else if (signal == SIGUSR1) {
      fmt::print(stderr, "there is no flight recorder: start with --flight-recorder FILE to have one\n");
    }
  }
  (*server)->stop();
  return written ? kExitOk : kExitFailed;
}

}  // namespace

Run add_coordinator(CLI::App& app) {
  CLI::App* command = app.add_subcommand("coordinator", "decides the membership of a run; every run needs one");
  auto options = std::make_shared<CoordinatorOptions>();
  command->add_option("-l,--listen", options->listen, "HOST:PORT; no host: every address; port 0: any free one")
      ->capture_default_str();
  command->add_option("--heartbeat", options->heartbeat_ms, "ms; interval of heartbeats from every peer")
      ->check(CLI::Range(10, 60'000))
      ->capture_default_str();
  command->add_option("--silence", options->silence_ms, "ms; silence after which a peer is lost")
      ->check(CLI::Range(30, 600'000))
      ->capture_default_str();
  command->add_option("--greeting", options->greeting_ms, "ms; limit for the first message of a new connection")
      ->check(CLI::Range(10, 60'000))
      ->capture_default_str();
  command->add_option("--log", options->log, "events on stderr, a line each")
      ->transform(sim::one_of({"text", "json", "none"}))
      ->capture_default_str();
  command
      ->add_option("--flight-recorder", options->flight_file,
                   "FILE for `lockstep sim replay`: written on SIGUSR1, at the end, and at a failure")
      ->check(validate_flight_file);
  command->add_option("--tokens", options->access.token_file,
                      "FILE with the coordinator's key and its run tokens, for `lockstep token`; made if missing");
  command->add_option("--advertise", options->access.advertised,
                      "HOST or HOST:PORT in run tokens, once or more (default: the addresses that are listened on)");
  add_certificates(*command, options->access.certificates);
  command->add_flag("!--no-dial-back", options->dial_back,
                    "take all peers for peers that can be dialled: where this coordinator may open no connections");
  command->add_flag("--insecure", options->access.insecure, "no TLS and no token: only for a network that is trusted");
  command->add_flag("-v,--verbose", options->verbose, "also log every committed collective");
  command->footer(R"(
Prints "lockstep coordinator listening on HOST:PORT" on stdout when it listens, and then, unless it listens on loopback
only, "peers connect with TOKEN": all that a peer needs to join. The token is a secret. Events go to stderr.
SIGTERM or Ctrl-C ends the coordinator with exit code 0 (1 if the flight recording cannot be written), and the run ends
for its peers. The coordinator never sees a tensor, and needs few resources.

Examples:
  lockstep coordinator                                  listens on port 4000 of every address; prints a token
  lockstep coordinator --listen 127.0.0.1:0             any free port, this machine only; needs no token
  lockstep coordinator --tokens run.tokens              keeps its tokens when it is started again
  lockstep coordinator --heartbeat 200 --silence 1000   notices a silent peer sooner; needs a good network)");
  return [options] {
    if (options->silence_ms < 2 * options->heartbeat_ms) {
      throw Failure(kExitUsage,
                    fmt::format("--silence {} must be at least twice --heartbeat {}, or healthy peers count "
                                "as lost",
                                options->silence_ms, options->heartbeat_ms));
    }
    return serve(*options);
  };
}

}  // namespace lockstep::cli
