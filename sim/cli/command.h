// Parts that the subcommands of `lockstep sim` share.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "core/base/result.h"
#include "sim/cli/exit_code.h"
#include "sim/plan/plan.h"
#include "sim/plan/report.h"
#include "sim/scenario/scenario.h"

namespace CLI {
class App;
}  // namespace CLI

namespace lockstep::sim {

// An error in the command line that only the command itself can detect, before it has done anything.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Each function declares a subcommand with its options, and returns a function that runs the parsed command and returns
// the exit code.
using Run = std::function<int()>;
Run add_audit(CLI::App& app);
Run add_predict(CLI::App& app);
Run add_run(CLI::App& app);
Run add_replay(CLI::App& app);
Run add_scenario(CLI::App& app);
Run add_shrink(CLI::App& app);
Run add_sweep(CLI::App& app);
Run add_explain(CLI::App& app);
Run add_corpus(CLI::App& app);
Run add_cover(CLI::App& app);
Run add_det(CLI::App& app);
Run add_mutants(CLI::App& app);
Run add_night(CLI::App& app);

inline constexpr std::uint32_t kMostJobs = 256;  // processes

// The options of the plans that seeds expand to: --peers, --max-peers, --mode, --calm.
struct SwarmFlags {
  std::uint32_t peers = 0;
  std::uint32_t max_peers = 32;
  std::string mode = "drawn";
  bool calm = false;

  void declare(CLI::App& command);
  // Wrong usage: --max-peers beside --peers, and all of them with a file, which says itself what runs.
  static void refuse_without_effect(const CLI::App& command, bool with_file);
  [[nodiscard]] PlanOptions options() const;
  [[nodiscard]] std::string text() const;  // as they were typed, with a space before each; defaults are left out
};

// An option that was typed and does nothing is wrong usage: "--trace has no effect with --seeds". Throws UsageError.
void refuse(const CLI::App& command, std::initializer_list<const char*> options, const std::string& why);
bool was_given(const CLI::App& command, const std::string& option);

// Checks ranges of seeds: --jobs processes count on from each seed, and must not wrap around to 0.
inline constexpr std::uint64_t kEndOfSeeds = UINT64_MAX - kMostJobs;
// `A..B` as it is typed: A, A+1, ..., B-1.
struct SeedRange {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};
SeedRange seed_range(const std::string& text);  // throws UsageError

std::string read_text(const std::string& path);   // throws UsageError
Plan read_plan(const std::string& path);          // throws UsageError, with line and column
Scenario read_scenario(const std::string& path);  // likewise
// Reads a plan or a scenario. The file is read once, so it may be a pipe. Throws UsageError, with line and column.
std::variant<Plan, Scenario> read_plan_or_scenario(const std::string& path);
Plan read_either(const std::string& path,
                 std::optional<std::uint64_t> seed);  // a plan, or what a seed makes of a scenario
// The files of the list, and the *.toml files in the folders of the list, sorted. Throws UsageError.
std::vector<std::string> toml_files_in(const std::vector<std::string>& paths);
void write_plan(const Plan& plan, const std::string& path);

// "1 kill", "2 kills".
std::string counted(std::uint64_t n, const std::string& one, const std::string& many = "");
void print_line(const std::string& line);  // on stdout: for traces
std::string text_of(const Failure& failure);
// Prints the faults that never began to stderr. A run that was stopped early prints none.
void note_what_never_began(const Plan& plan, const Report& report);

}  // namespace lockstep::sim
