#include "sim/cli/mutants.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "core/base/mutant.h"
#include "sim/cli/command.h"
#include "sim/nearest.h"
#include "sim/plan.h"
#include "sim/words.h"
#include "sim/world.h"

namespace lockstep::sim {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kHangs = 60;  // seconds for one seed: the bug has made a step of core endless
double seconds_since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

// One mutant, hunted by a child process: an assertion ends the child and not the hunt.
struct Hunt {
  MutantEntry entry;
  std::uint64_t budget = 0;

  pid_t pid = 0;
  int out = -1;
  std::string buffer;
  std::uint64_t seed = 0;  // under way
  Clock::time_point began;
  Clock::time_point heard;

  bool over = false;
  std::string promise;  // that broke and is named for it; empty: none
  std::string text;
  double seconds = 0;
  std::map<std::string, std::uint64_t> others;  // what else broke before, in how many seeds
  std::string other_text;                       // of the first of those
  std::uint64_t other_seed = 0;
  std::string last_words;  // of a child: what its assertion said

  [[nodiscard]] bool names(const std::string& what) const {
    const auto named = split_words(entry.promises);
    return std::find(named.begin(), named.end(), what) != named.end();
  }
};

void say_all(int out, const std::string& line) {
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::write(out, line.data() + done, line.size() - done);
    if (n <= 0) _exit(0);
    done += static_cast<std::size_t>(n);
  }
}

// In the child: "s SEED" before each seed, "f PROMISE TEXT" when one breaks.
[[noreturn]] void hunt_here(const Hunt& hunt, int out) {
  ::dup2(out, STDERR_FILENO);
  plant(hunt.entry.mutant);
  for (std::uint64_t seed = hunt.seed; seed < hunt.budget; ++seed) {
    say_all(out, "s " + std::to_string(seed) + "\n");
    const Report report = run(plan_of(seed));
    if (!report.failure) continue;
    std::string text = report.failure->text;
    std::replace(text.begin(), text.end(), '\n', ' ');
    say_all(out, "f " + report.failure->promise + " " + text + "\n");
    if (hunt.names(report.failure->promise)) break;
  }
  _exit(0);
}

void start(Hunt& hunt) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  std::fflush(stdout);
  hunt.pid = ::fork();
  if (hunt.pid < 0) std::abort();
  if (hunt.pid == 0) {
    ::close(ends[0]);
    hunt_here(hunt, ends[1]);
  }
  ::close(ends[1]);
  hunt.out = ends[0];
  hunt.buffer.clear();
  hunt.last_words.clear();
  hunt.heard = Clock::now();
}

void broke(Hunt& hunt, const std::string& promise, const std::string& text) {
  if (hunt.names(promise)) {
    hunt.promise = promise;
    hunt.text = text;
    return;
  }
  if (hunt.others.empty()) {
    hunt.other_text = promise + ": " + text;
    hunt.other_seed = hunt.seed;
  }
  hunt.others[promise] += 1;
}

void hear(Hunt& hunt, const std::string& line) {
  if (line.starts_with("s ")) {
    hunt.seed = std::strtoull(line.c_str() + 2, nullptr, 10);
  } else if (line.starts_with("f ")) {
    const std::size_t space = std::min(line.find(' ', 2), line.size());
    broke(hunt, line.substr(2, space - 2), line.substr(std::min(space + 1, line.size())));
  } else {
    hunt.last_words = line;
  }
}

// The child is gone: it came to its end, or an assertion, a signal or our patience ended it.
void ended(Hunt& hunt, bool hangs) {
  if (hangs) ::kill(hunt.pid, SIGKILL);
  int status = 0;
  ::waitpid(hunt.pid, &status, 0);
  ::close(hunt.out);
  hunt.out = -1;
  const bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!clean) broke(hunt, hangs ? "hang" : "assert", hunt.last_words);
  const bool again = !clean && hunt.promise.empty() && hunt.seed + 1 < hunt.budget;
  if (again) {
    hunt.seed += 1;
    start(hunt);
    return;
  }
  hunt.over = true;
  hunt.seconds = seconds_since(hunt.began);
}

void listen(Hunt& hunt) {
  char bytes[65536];
  const ssize_t n = ::read(hunt.out, bytes, sizeof bytes);
  hunt.heard = Clock::now();
  if (n > 0) hunt.buffer.append(bytes, static_cast<std::size_t>(n));
  std::size_t at = 0;
  for (std::size_t newline = 0; (newline = hunt.buffer.find('\n', at)) != std::string::npos; at = newline + 1) {
    hear(hunt, hunt.buffer.substr(at, newline - at));
  }
  hunt.buffer.erase(0, at);
  if (n <= 0) ended(hunt, false);
}

std::string before(const Hunt& hunt) {
  std::string text;
  for (const auto& [promise, seeds] : hunt.others) {
    text += (text.empty() ? "" : ", ") + promise + " in " + std::to_string(seeds);
  }
  return text;
}

void print_head() {
  std::printf("%-24s %-14s %-7s %7s %7s %8s  %s\n", "mutant", "must break", "broken", "seeds", "budget", "seconds",
              "other promises before");
}

void print_row(const Hunt& hunt) {
  const std::string seeds = hunt.promise.empty() ? "-" : std::to_string(hunt.seed + 1);
  std::printf("%-24s %-14s %-7s %7s %7llu %8.1f  %s\n", std::string(hunt.entry.id).c_str(),
              std::string(hunt.entry.promises).c_str(), hunt.promise.empty() ? "MISSED" : hunt.promise.c_str(),
              seeds.c_str(), static_cast<unsigned long long>(hunt.budget), hunt.seconds, before(hunt).c_str());
  std::fflush(stdout);
}

nlohmann::json json_of(const Hunt& hunt) {
  nlohmann::json j = {
      {"id", hunt.entry.id},    {"bug", hunt.entry.bug},          {"promises", split_words(hunt.entry.promises)},
      {"budget", hunt.budget},  {"found", !hunt.promise.empty()}, {"others", hunt.others},
      {"seconds", hunt.seconds}};
  if (hunt.promise.empty()) return j;
  j["promise"] = hunt.promise;
  j["seed"] = hunt.seed;
  j["seeds"] = hunt.seed + 1;
  j["text"] = hunt.text;
  return j;
}

void hunt_all(std::vector<Hunt>& hunts, std::uint32_t jobs, bool table) {
  std::size_t next = 0;
  std::size_t printed = 0;
  for (;;) {
    std::vector<Hunt*> running;
    for (Hunt& hunt : hunts) {
      if (hunt.out >= 0) running.push_back(&hunt);
    }
    while (running.size() < jobs && next < hunts.size()) {
      Hunt& hunt = hunts[next++];
      hunt.began = Clock::now();
      start(hunt);
      running.push_back(&hunt);
    }
    if (running.empty()) return;
    std::vector<pollfd> fds;
    fds.reserve(running.size());
    for (const Hunt* hunt : running) fds.push_back({hunt->out, POLLIN, 0});
    if (::poll(fds.data(), fds.size(), 1000) < 0 && errno != EINTR) std::abort();
    for (std::size_t i = 0; i < running.size(); ++i) {
      Hunt& hunt = *running[i];
      if (fds[i].revents != 0) {
        listen(hunt);
      } else if (seconds_since(hunt.heard) > kHangs) {
        ended(hunt, true);
      }
    }
    for (; table && printed < hunts.size() && hunts[printed].over; ++printed) print_row(hunts[printed]);
  }
}

Mutant known_mutant(const std::string& id) {
  std::vector<std::string> ids;
  for (const MutantEntry& entry : kMutants) {
    if (entry.id == id) return entry.mutant;
    ids.emplace_back(entry.id);
  }
  throw UsageError("unknown mutant '" + id + "'" + did_you_mean(id, ids));
}

Mutant mutant_of(const std::string& id) {
  if (!kMutantsBuilt) throw UsageError(kNoMutants);
  return known_mutant(id);
}

}  // namespace

void check_mutant(const std::string& id) { (void)known_mutant(id); }

void MutantFlag::declare(CLI::App& command) {
  CLI::Option* const option = command.add_option("--mutant", id, "plant this bug first");
  if (!kMutantsBuilt) option->group("");  // not in the help
}

void MutantFlag::plant() const {
  if (!id.empty()) lockstep::plant(mutant_of(id));
}

std::string MutantFlag::text() const { return id.empty() ? "" : " --mutant " + id; }

int hunt_mutants(const HuntOptions& options) {
  if (!kMutantsBuilt) throw UsageError(kNoMutants);
  std::vector<Mutant> wanted;
  for (const std::string& id : options.only) wanted.push_back(mutant_of(id));
  std::vector<Hunt> hunts;
  for (const MutantEntry& entry : kMutants) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), entry.mutant) == wanted.end()) continue;
    Hunt& hunt = hunts.emplace_back();
    hunt.entry = entry;
    hunt.budget = options.seeds != 0 ? options.seeds : static_cast<std::uint64_t>(entry.rarity);
  }
  const Clock::time_point began = Clock::now();
  if (!options.json) print_head();
  hunt_all(hunts, std::max(1U, options.jobs), !options.json);
  const auto missed = std::count_if(hunts.begin(), hunts.end(), [](const Hunt& hunt) { return hunt.promise.empty(); });
  if (options.json) {
    nlohmann::json j = {{"version", 1}, {"seconds", seconds_since(began)}, {"mutants", nlohmann::json::array()}};
    for (const Hunt& hunt : hunts) j["mutants"].push_back(json_of(hunt));
    std::printf("%s\n", j.dump(2).c_str());
  } else {
    std::printf("%zu mutants, %zu found by a promise named for them, %zu missed; %.0f s\n", hunts.size(),
                hunts.size() - static_cast<std::size_t>(missed), static_cast<std::size_t>(missed),
                seconds_since(began));
  }
  for (const Hunt& hunt : hunts) {
    if (!hunt.promise.empty()) continue;
    std::fprintf(stderr, "missed %s (%s)", std::string(hunt.entry.id).c_str(), std::string(hunt.entry.bug).c_str());
    if (!hunt.others.empty()) {
      std::fprintf(stderr, "; but %s\nlockstep sim run --seed %llu --mutant %s --trace", hunt.other_text.c_str(),
                   static_cast<unsigned long long>(hunt.other_seed), std::string(hunt.entry.id).c_str());
    }
    std::fprintf(stderr, "\n");
  }
  return missed == 0 ? kExitPass : kExitSafety;
}

Run add_mutants(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("mutants", "plant bugs, and count the seeds until each is found");
  const auto options = std::make_shared<HuntOptions>();
  command->add_option("--only", options->only, "only this mutant; may be repeated");
  command->add_option("--seeds", options->seeds, "at most so many for each, instead of its budget");
  command->add_option("--jobs", options->jobs, "mutants at once")->check(CLI::Range(1U, kMostJobs));
  command->add_flag("--json", options->json, "the same facts as JSON");
  return [options] { return hunt_mutants(*options); };
}

}  // namespace lockstep::sim
