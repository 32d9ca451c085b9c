// `lockstep sim audit`: journals of real processes, judged by the checkers of the simulator.
#include "sim/flight/audit.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include "sim/cli/command.h"
#include "sim/cli/usage.h"
#include "sim/workload/text.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kMostComplaints = 20;

// Gives how many lines were whole.
std::size_t take_file(Audit& audit, const std::string& path) {
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) throw UsageError(path + " is a directory: name the journals in it");
  std::ifstream file(path);
  if (!file) throw UsageError(path + ": cannot be read");
  std::string line;
  std::string cut;
  std::size_t whole = 0;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    const auto error = audit.take(line);
    if (!error) {
      ++whole;
    } else if (file.eof()) {  // the disk was full, or the process was killed as it wrote
      cut = path + " ends in the middle of a line";
    } else {
      throw UsageError(fmt::format("{}:{}: {}", path, number, error->text));
    }
  }
  audit.end_file(cut);
  return whole;
}

int audit_files(const std::vector<std::string>& files) {
  Audit audit;
  std::size_t lines = 0;
  std::size_t empty = 0;
  for (const std::string& file : files) {
    const std::size_t whole = take_file(audit, file);
    if (whole == 0) {
      ++empty;
      fmt::print(stderr, "incomplete: {} has no whole line: its peer is not judged\n", file);
    }
    lines += whole;
  }
  if (lines == 0) throw UsageError("no journal has a line to judge");
  const Audit::Sums sums = audit.sums();
  fmt::print("{} peers, {} calls, {} committed rounds, {} views\n", sums.peers, sums.calls, sums.rounds, sums.views);
  std::fflush(stdout);
  const std::vector<Failure> failures = audit.judge();
  for (std::size_t i = 0; i < failures.size() && i < kMostComplaints; ++i) {
    fmt::print(stderr, "{} broken: {}\n", failures[i].promise, failures[i].text);
  }
  if (failures.size() > kMostComplaints) fmt::print(stderr, "... and {} more\n", failures.size() - kMostComplaints);
  const std::vector<Audit::Incomplete> incomplete = audit.incomplete();
  for (std::size_t i = 0; i < incomplete.size() && i < kMostComplaints; ++i) {
    fmt::print(stderr, "incomplete: the journal of {} stopped: {}\n", text_of(incomplete[i].peer), incomplete[i].why);
  }
  if (!failures.empty()) return exit_code_of(failures.front());
  if (!incomplete.empty() || empty > 0) {
    fmt::print("incomplete: what the journals show keeps all promises, and {} of {} journals lack their end\n",
               incomplete.size() + empty, sums.peers + empty);
    return kExitIncomplete;
  }
  fmt::print("all promises that journals show were kept\n");
  return kExitPass;
}

}  // namespace

Run add_audit(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("audit", "journals of real processes, judged by the same checkers");
  const auto files = std::make_shared<std::vector<std::string>>();
  command->add_option("journals", *files, "journals of all peers of one run")->required()->check(file_name());
  return [files] { return audit_files(*files); };
}

}  // namespace lockstep::sim
