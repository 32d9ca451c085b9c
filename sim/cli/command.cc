#include "sim/cli/command.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>

#include "sim/cli/usage.h"
#include "sim/plan/plan_file.h"
#include "sim/words/units.h"

namespace lockstep::sim {

namespace {

constexpr std::size_t kMostBytes = 16'000'000;  // of a file that is read as a whole

template <typename T>
T well_formed(const std::string& path, Result<T> what) {
  if (!what) throw UsageError(path + ":" + what.error().text);
  return *std::move(what);
}

}  // namespace

void SwarmFlags::declare(CLI::App& command) {
  command.add_option("--peers", peers, "hosts of peers; 0: drawn")
      ->check(CLI::Range(0U, kMaxPeers))
      ->check(CLI::Validator(
          [](const std::string& word) {
            return word == "1"
                       ? fmt::format("one peer alone meets no faults of others: 2 to {}, or 0: drawn", kMaxPeers)
                       : "";
          },
          ""));
  command.add_option("--max-peers", max_peers, "limit of drawn hosts")->check(CLI::Range(2U, kMaxDrawnPeers));
  command.add_option("--mode", mode, "payloads: tokens, bytes, or drawn from the seed")
      ->transform(one_of({"drawn", "token", "bytes"}));
  command.add_flag("--calm", calm, "no faults");
}

void SwarmFlags::refuse_without_effect(const CLI::App& command, bool with_file) {
  if (with_file)
    refuse(command, {"--peers", "--max-peers", "--mode", "--calm"}, "with a file, which states the whole run");
  if (was_given(command, "--peers")) refuse(command, {"--max-peers"}, "with --peers");
}

bool was_given(const CLI::App& command, const std::string& option) {
  const CLI::Option* const found = command.get_option_no_throw(option);
  return found != nullptr && found->count() > 0;
}

void refuse(const CLI::App& command, std::initializer_list<const char*> options, const std::string& why) {
  for (const char* option : options) {
    if (was_given(command, option)) throw UsageError(std::string(option) + " has no effect " + why);
  }
}

PlanOptions SwarmFlags::options() const {
  PlanOptions options;
  options.peers = peers;
  options.max_peers = max_peers;
  options.calm = calm;
  options.payload = mode == "token"   ? PlanOptions::Payload::kToken
                    : mode == "bytes" ? PlanOptions::Payload::kBytes
                                      : PlanOptions::Payload::kDrawn;
  return options;
}

std::string SwarmFlags::text() const {
  std::string text;
  if (peers != 0) text += fmt::format(" --peers {}", peers);
  if (max_peers != SwarmFlags{}.max_peers) text += fmt::format(" --max-peers {}", max_peers);
  if (mode != SwarmFlags{}.mode) text += " --mode " + mode;
  if (calm) text += " --calm";
  return text;
}

SeedRange seed_range(const std::string& text) {
  const std::size_t dots = text.find("..");
  const auto number = [&](std::string_view digits) -> std::optional<std::uint64_t> {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || end != digits.data() + digits.size()) return {};
    return value;
  };
  const std::string_view view = text;
  const auto first = number(view.substr(0, dots));
  const auto end = dots == std::string::npos ? std::nullopt : number(view.substr(dots + 2));
  if (!first || !end) throw UsageError("--seeds takes a range such as 0..1000, not '" + text + "'");
  if (*end <= *first) {
    throw UsageError("--seeds A..B runs A, A+1, ..., B-1: B must be larger than A, and '" + text + "' is empty");
  }
  if (*end > kEndOfSeeds) throw UsageError(fmt::format("--seeds A..B: B must be at most {}", kEndOfSeeds));
  return {*first, *end};
}

std::string read_text(const std::string& path) {
  if (path.empty()) throw UsageError("an empty name names no file");
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw UsageError(path + " is a directory: name a file in it (`lockstep sim sweep` takes directories, too)");
  }
  std::ifstream file(path);
  if (!file) throw UsageError(path + ": " + std::strerror(errno));
  try {
    std::string text(kMostBytes + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    if (text.size() > kMostBytes)
      throw UsageError(fmt::format("{}: larger than {} bytes: no plan is", path, kMostBytes));
    if (file.bad()) throw UsageError(path + ": cannot be read: " + std::strerror(errno));
    return text;
  } catch (const std::ios_base::failure&) {  // the library throws for what the system refuses to read
    throw UsageError(path + ": cannot be read: " + std::strerror(errno));
  }
}

Plan read_plan(const std::string& path) { return well_formed(path, plan_from_text(read_text(path))); }

Scenario read_scenario(const std::string& path) { return well_formed(path, scenario_from_text(read_text(path))); }

std::variant<Plan, Scenario> read_plan_or_scenario(const std::string& path) {
  const std::string text = read_text(path);
  if (is_scenario(text)) return well_formed(path, scenario_from_text(text));
  return well_formed(path, plan_from_text(text));
}

Plan read_either(const std::string& path, std::optional<std::uint64_t> seed) {
  auto read = read_plan_or_scenario(path);
  if (const auto* scenario = std::get_if<Scenario>(&read)) return plan_of(*scenario, seed.value_or(0));
  if (seed) throw UsageError(path + " is a plan, which has its own seed: leave out --seed");
  return std::get<Plan>(std::move(read));
}

std::vector<std::string> toml_files_in(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
    }
    if (error) throw UsageError(path + ": " + error.message());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) throw UsageError(paths.front() + " has no *.toml");
  return files;
}

void write_plan(const Plan& plan, const std::string& path) {
  std::ofstream file(path);
  file << to_text(plan);
  file.close();
  if (!file) throw UsageError(path + ": cannot be written: " + std::strerror(errno));
}

std::string counted(std::uint64_t n, const std::string& one, const std::string& many) {
  return fmt::format("{} {}", n, n == 1 ? one : many.empty() ? one + "s" : many);
}

void print_line(const std::string& line) { fmt::print("{}\n", line); }

std::string text_of(const Failure& failure) {
  return fmt::format("{} broken at {:.6f} s, event {}: {}", failure.promise, static_cast<double>(failure.at_ns) * 1e-9,
                     failure.event, failure.text);
}

void note_what_never_began(const Plan& plan, const Report& report) {
  if (report.failure && report.failure->promise != "goal") return;
  for (const std::uint64_t index : report.never_began) {
    const Entry& entry = plan.entries[index];
    fmt::print(stderr, "note: never began: {} at {}; faults stopped at {}, and all in all there were {}, {} and {}\n",
               words_of(entry), when_of(entry), words_of(plan.end.safety, " "),
               counted(report.launches, "launch", "launches"), counted(report.commits, "commit"),
               counted(report.views, "view"));
  }
}

}  // namespace lockstep::sim
