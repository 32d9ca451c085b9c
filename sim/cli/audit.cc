// `lockstep sim audit`: journals of real processes, judged by the checkers of the simulator.
#include "sim/audit.h"

#include <fmt/core.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "sim/cli/command.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kMostComplaints = 20;

void take_file(Audit& audit, const std::string& path) {
  std::ifstream file(path);
  if (!file) throw UsageError(path + ": cannot be read");
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    const auto error = audit.take(line);
    if (!error) continue;
    if (file.eof()) continue;  // cut off in the middle of a line: the process was killed
    throw UsageError(fmt::format("{}:{}: {}", path, number, error->text));
  }
}

int audit_files(const std::vector<std::string>& files) {
  Audit audit;
  for (const std::string& file : files) take_file(audit, file);
  const Audit::Sums sums = audit.sums();
  fmt::print("{} peers, {} calls, {} committed rounds, {} views\n", sums.peers, sums.calls, sums.rounds, sums.views);
  std::fflush(stdout);
  const std::vector<Failure> failures = audit.judge();
  for (std::size_t i = 0; i < failures.size() && i < kMostComplaints; ++i) {
    fmt::print(stderr, "{} broken: {}\n", failures[i].promise, failures[i].text);
  }
  if (failures.size() > kMostComplaints) fmt::print(stderr, "... and {} more\n", failures.size() - kMostComplaints);
  if (!failures.empty()) return exit_code_of(failures.front());
  fmt::print("all promises that journals show were kept\n");
  return kExitPass;
}

}  // namespace

Run add_audit(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("audit", "journals of real processes, judged by the same checkers");
  const auto files = std::make_shared<std::vector<std::string>>();
  command->add_option("journals", *files, "those of the peers of one run")->required();
  return [files] { return audit_files(*files); };
}

}  // namespace lockstep::sim
