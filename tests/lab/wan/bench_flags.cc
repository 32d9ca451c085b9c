#include "tests/lab/wan/bench_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "sim/cli/usage.h"
#include "sim/words/units.h"
#include "tests/lab/wan/failure.h"

namespace lockstep::wan {
namespace {

CLI::Validator size_words() {
  return {[](std::string& text) -> std::string {
            const auto bytes = sim::bytes_of(text);
            if (!bytes || *bytes == 0) return fmt::format("'{}' is no size, such as 64MiB", text);
            text = fmt::to_string(*bytes);
            return {};
          },
          "SIZE"};
}

}  // namespace

void BenchFlags::declare(CLI::App& command) {
  command.add_option("-s,--size", sizes, "of the tensor, or the state: 8MiB, ...; each is a row of its own")
      ->transform(size_words())
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("-n,--iters", bench.iterations, "calls that are measured; their median counts")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("-w,--warmup", bench.warmup, "calls before, after the one that is checked")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--lockstep", bench.lockstep, "the `lockstep` command")->capture_default_str();
  command
      .add_option("--security", bench.security,
                  "of streams: TLS by a run token; or --insecure; or no word of it, for commands that know neither")
      ->check(sim::one_of({"tls", "insecure", "none"}))
      ->capture_default_str();
}

nlohmann::json json_head(const std::string& path, const Topology& topology) {
  return {
      {"version", 1}, {"topology", path}, {"name", topology.name}, {"peers", topology.peers}, {"mtu", topology.mtu}};
}

void needs_two_peers(const Topology& topology, const std::string& path) {
  if (topology.peers < 2) throw Failure(kExitUsage, path + ": a collective needs two peers");
}

}  // namespace lockstep::wan
