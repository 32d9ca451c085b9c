// `lockstep bench`: the speed of collectives, as a table in the style of nccl-tests. This file: options, and local
// peers.
#include "bindings/cli/bench.h"

#include <fmt/core.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>

#include "bindings/cli/api.h"
#include "bindings/cli/command.h"
#include "bindings/cli/family.h"
#include "bindings/cli/protection.h"
#include "bindings/cli/size.h"
#include "core/kernels/formats/format.h"
#include "sim/cli/usage.h"

namespace lockstep::cli {
namespace {

// How a peer that bench starts learns of its coordinator.
constexpr const char* kCoordinatorVariable = "LOCKSTEP_BENCH_COORDINATOR";

std::vector<std::string> peer_arguments(const BenchOptions& o, const std::string& coordinator) {
  std::vector<std::string> words = {"bench",
                                    "--coordinator",
                                    coordinator,
                                    "--peers",
                                    fmt::to_string(o.peers),
                                    "--collective",
                                    o.collective,
                                    "--type",
                                    o.type,
                                    "--op",
                                    o.op,
                                    "--up",
                                    o.encoding.up,
                                    "--down",
                                    o.encoding.down,
                                    "--algorithm",
                                    o.encoding.algorithm,
                                    "--begin",
                                    fmt::to_string(o.sizes.begin),
                                    "--end",
                                    fmt::to_string(o.sizes.end),
                                    "--factor",
                                    fmt::to_string(o.sizes.factor),
                                    "--iters",
                                    fmt::to_string(o.iterations),
                                    "--warmup",
                                    fmt::to_string(o.warmup),
                                    "--tensors",
                                    fmt::to_string(o.tensors),
                                    "--in-flight",
                                    fmt::to_string(o.in_flight),
                                    "--stripes",
                                    fmt::to_string(o.network.stripes),
                                    "--bytes-per-second",
                                    fmt::to_string(o.network.bytes_per_second),
                                    "--segment-bytes",
                                    fmt::to_string(o.network.segment_bytes),
                                    "--spin",
                                    fmt::to_string(o.network.spin_us),
                                    "--wait",
                                    fmt::to_string(o.network.wait_s)};
  words.insert(words.end(), {"--only", o.only});
  if (!o.network.congestion_control.empty())
    words.insert(words.end(), {"--congestion-control", o.network.congestion_control});
  if (o.encoding.residual) words.emplace_back("--residual");
  if (o.json) words.emplace_back("--json");
  if (o.say_calls) words.emplace_back("--say-calls");
  return words;
}

// Runs local peers until all have ended or one has failed. Prints the output of rank 0.
int bench_here(const BenchOptions& options) {
  Family family;
  lockstep_coordinator_options coordinator_options = LOCKSTEP_COORDINATOR_OPTIONS_INIT;
  if (options.network.tls) {
    coordinator_options.listen = ":0";
    coordinator_options.advertise = "127.0.0.1";
  }
  std::string token;
  const EmbeddedCoordinator coordinator = start_coordinator(coordinator_options, token);
  ::setenv(kCoordinatorVariable, token.c_str(), 1);  // not as an argument, which everybody on this machine can see
  for (std::uint32_t i = 0; i < options.peers; ++i) {
    family.start(peer_arguments(options, std::string("env:") + kCoordinatorVariable));
  }

  int code = kExitOk;
  for (std::uint32_t running = options.peers; running > 0;) {
    const Family::Event event = family.next();
    if (const auto* const line = std::get_if<Family::Line>(&event)) {
      fmt::print("{}\n", line->text);
      std::fflush(stdout);
    } else if (std::holds_alternative<Family::Interrupted>(event)) {
      return kExitInterrupted;
    } else if (const auto* const ended = std::get_if<Family::Ended>(&event)) {
      --running;
      if (WIFEXITED(ended->status)) {
        code = std::max(code, WEXITSTATUS(ended->status));
      } else {
        throw Failure(kExitFailed, fmt::format("peer {} {}", ended->child, end_words(ended->status)));
      }
    }
  }
  return code;
}

int bench(const BenchOptions& options) {
  if (options.sizes.begin > options.sizes.end) {
    throw Failure(kExitUsage, fmt::format("--begin {} is larger than --end {}", size_words(options.sizes.begin),
                                          size_words(options.sizes.end)));
  }
  // Broadcast and sync work in place. A collective whose result has another size or another place does not.
  const bool never_out = options.collective == "broadcast" || options.collective == "sync_state";
  const bool never_in = options.collective == "reduce" || options.collective == "reduce_scatter" ||
                        options.collective == "barrier" || options.collective == "send";
  if ((never_out && options.only == "out") || (never_in && options.only == "in")) {
    throw Failure(kExitUsage, fmt::format("--only {}: {} is measured {} place only", options.only, options.collective,
                                          never_out ? "in" : "out of"));
  }
  if (options.collective == "sync_state" && options.peers < 2) {
    throw Failure(kExitUsage, "--peers 1: sync_state needs at least 2 peers: one with the state, and a newcomer");
  }
  if (options.collective == "send" && options.peers % 2 != 0) {
    throw Failure(kExitUsage, fmt::format("--peers {}: send needs pairs: give an even number", options.peers));
  }
  if (options.collective != "all_reduce" && options.tensors > 1) {
    throw Failure(kExitUsage,
                  fmt::format("--tensors {}: {} takes one tensor; only all_reduce takes several in one call",
                              options.tensors, options.collective));
  }
  if (options.collective == "sync_state" && options.in_flight > 1) {
    throw Failure(kExitUsage, fmt::format("--in-flight {}: sync_state allows one call at a time", options.in_flight));
  }
  const bool encodes = options.encoding.up != "native" || options.encoding.down != "native";
  const bool sums = options.op == "sum" || options.op == "avg";
  if (encodes && (options.collective != "all_reduce" || options.type != "f32" || !sums)) {
    throw Failure(kExitUsage,
                  fmt::format("--up {} --down {}: only an all_reduce of f32 (sum or avg) supports wire formats",
                              options.encoding.up, options.encoding.down));
  }
  if (options.encoding.algorithm != "auto" && options.collective != "all_reduce") {
    throw Failure(kExitUsage, fmt::format("--algorithm {}: only an all_reduce can choose an algorithm",
                                          options.encoding.algorithm));
  }
  const bool direct = options.encoding.algorithm == "direct" ||
                      (options.encoding.algorithm == "auto" && bits_of(*wire_format_named(options.encoding.up)) < 8);
  if (options.encoding.residual && !direct) {
    throw Failure(kExitUsage,
                  fmt::format("--residual --up {} --algorithm {}: only the direct algorithm has residuals: use "
                              "--algorithm direct",
                              options.encoding.up, options.encoding.algorithm));
  }
  if (encodes) {
    const std::string formats = fmt::format("--up {} --down {}: ", options.encoding.up, options.encoding.down);
    if (options.op == "sum" && options.only != "out") {
      throw Failure(kExitUsage, formats +
                                    "sums in place grow from call to call beyond the range of the format: "
                                    "use --op avg, or --only out");
    }
    // the parser has validated the name
    if (options.encoding.algorithm == "ring" && bits_of(*wire_format_named(options.encoding.up)) < 8) {
      throw Failure(kExitUsage, formats + "the ring needs a format of 8 bits or more for --up");
    }
  }
  if (!options.coordinator.empty() && options.network.tls) {
    throw Failure(kExitUsage, "--tls is for peers that bench starts: with --coordinator, a run token means TLS");
  }
  return options.coordinator.empty() ? bench_here(options) : bench_as_peer(options);
}

constexpr const char* kBenchFooter = R"(
Columns: the time of a call on the slowest peer; algbw = bytes / time; busbw = algbw * 2(n-1)/n for all-reduce, (n-1)/n
for reduce-scatter and all-gather, 1 for reduce and broadcast, as in nccl-tests (doc/PERFORMANCE.md); errors: wrong
elements of the result, on all peers together; with a wire format, elements that are wrong by more than the format
allows. `bytes`: the bytes that each peer contributes; for all-gather, the bytes that each peer receives. Rank 0 is the
root of reduce and broadcast.
send: a transfer from one peer to another. Ranks 0 and 1, 2 and 3, and so on send to each other in turns; the time is
half of the round trip, so one way. With --in-flight n, n messages with different tags go, then n come back.
sync_state: all ranks hold the same state of `bytes`, except the last rank, a newcomer without a state. The newcomer's
time counts, and busbw is algbw. Before each call bench changes all of the newcomer's memory. --json adds the bytes that
the newcomer received in a call.

Examples:
  lockstep bench                                         2 peers on this machine, 4 KiB to 64 MiB
  lockstep bench -p 4 -b 64M -e 256M -f 4                large all-reduces among 4
  lockstep bench -c all_gather -d bf16 -e 1M --json
  lockstep bench -p 4 -t 150 -b 496M -e 496M             the gradients of a model in one call
  lockstep bench -o avg --up int8 --down int8            in a wire format
  lockstep bench -p 4 -o avg --up int4 --down int8       direct: rounded once on the way up
  lockstep bench -c send -i 64 -e 64K                    64 messages at a time between 2
  lockstep bench -c sync_state -p 5 -b 64M               a newcomer takes a state over from 4
  lockstep bench -p 4 --tls                              how much encryption costs
  lockstep bench -p 3 --coordinator TOKEN                on each of 3 machines)";

// Options that choose the measurement and its peers.
void add_subject(CLI::App& command, BenchOptions& options) {
  command
      .add_option("-p,--peers", options.peers, "number of peers: processes that bench starts, or members to wait for")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command.add_option("--coordinator", options.coordinator,
                     "run token, HOST:PORT, file:PATH or env:NAME: join as one of --peers; start this command once per "
                     "peer with equal options");
  command.add_option("-c,--collective", options.collective, "the collective to measure")
      ->transform(sim::one_of(
          {"all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast", "barrier", "sync_state", "send"}))
      ->capture_default_str();
  command.add_option("-d,--type", options.type, "type of the elements")
      ->transform(
          sim::one_of({"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64", "bool"}))
      ->capture_default_str();
  command.add_option("-o,--op", options.op, "operation that folds the elements")
      ->transform(sim::one_of({"sum", "avg", "prod", "min", "max", "band", "bor", "bxor"}))
      ->capture_default_str();
  const std::vector<std::string> formats(std::begin(kWireFormatNames), std::end(kWireFormatNames));
  command.add_option("--up", options.encoding.up, "wire format of contributions to an all-reduce of f32, sum or avg")
      ->transform(sim::one_of(formats))
      ->capture_default_str();
  command.add_option("--down", options.encoding.down, "wire format of the result")
      ->transform(sim::one_of(formats))
      ->capture_default_str();
  command.add_flag("--residual", options.encoding.residual, "all-reduce with error feedback; direct algorithm only");
  command
      .add_option(
          "--algorithm", options.encoding.algorithm,
          "algorithm of an all-reduce; auto: direct if --up has less than 8 bits, or members are far from each other; "
          "a grid if more than 64 are")
      ->transform(sim::one_of({"auto", "ring", "direct", "grid"}))
      ->capture_default_str();
}

// Sizes, and how often each is measured.
void add_sizes(CLI::App& command, BenchOptions& options) {
  command.add_option("-b,--begin", options.sizes.begin, "smallest size in bytes; 64K, 256M, 1G")
      ->transform(size_text())
      ->capture_default_str();
  command.add_option("-e,--end", options.sizes.end, "largest size")->transform(size_text())->capture_default_str();
  command.add_option("-f,--factor", options.sizes.factor, "ratio of one size to the previous one")
      ->check(CLI::Range(2, 1'048'576))
      ->capture_default_str();
  command
      .add_option("-n,--iters", options.iterations, "calls per measurement; 0: as many as fit into about half a second")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command.add_option("-w,--warmup", options.warmup, "calls before each measurement; 0: as many as needed")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command
      .add_option("-t,--tensors", options.tensors,
                  "number of tensors in one all-reduce, sized as in a transformer; equal in total")
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  command.add_option("-i,--in-flight", options.in_flight, "calls in flight at the same time, each of the full size")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
}

// Streams and waiting.
void add_network(CLI::App& command, BenchOptions& options) {
  command
      .add_option("--stripes", options.network.stripes, "parallel streams to each neighbour; 0: the library's default")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command
      .add_option("--bytes-per-second", options.network.bytes_per_second,
                  "that each peer sends of tensors at most (10M: 10 MiB/s); 0: no limit")
      ->transform(size_text())
      ->capture_default_str();
  command
      .add_option("--segment-bytes", options.network.segment_bytes,
                  "pipelined piece of a tensor, at most 1M; 0: the library's default")
      ->transform(size_text())
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command.add_option(
      "--congestion-control", options.network.congestion_control,
      "congestion control of TCP, such as bbr; default, and if the system refuses: the library's choice");
  command
      .add_option("--spin", options.network.spin_us, "us to poll before sleeping while a call is in flight; 0: none")
      ->check(CLI::Range(0, 10'000))
      ->capture_default_str();
  command.add_flag("--tls", options.network.tls,
                   "the peers that bench starts encrypt their streams, as between machines");
  add_protection(command, options.network.protection);
  command.add_option("--wait", options.network.wait_s, "s to wait for the other peers")
      ->check(sim::real_number(0.1, 86'400))
      ->capture_default_str();
}

// Options that choose the output.
void add_output(CLI::App& command, BenchOptions& options) {
  command.add_option("--only", options.only, "half of the table: out of place, or in place")
      ->transform(sim::one_of({"both", "out", "in"}))
      ->capture_default_str();
  command.add_flag("-j,--json", options.json, "the same facts as JSON");
  command.add_flag("--say-calls", options.say_calls,
                   "prints `call 1`, ... to stderr when rank 0 begins a measured call; for tests that disturb it");
}

}  // namespace

Run add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "measures collectives, checks their results, prints a table");
  auto options = std::make_shared<BenchOptions>();
  add_subject(*command, *options);
  add_sizes(*command, *options);
  add_network(*command, *options);
  add_output(*command, *options);
  command->footer(kBenchFooter);
  return [options] { return bench(*options); };
}

}  // namespace lockstep::cli
