// `lockstep demo`: runs a coordinator and peers as processes, and injects faults. Every printed fact was reported by a
// process; the verdict is computed from the reports.
#include <fmt/core.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bindings/cli/command.h"
#include "bindings/cli/demo_training.h"
#include "bindings/cli/family.h"
#include "bindings/cli/size.h"

namespace lockstep::cli {
namespace {

using Clock = Family::Clock;
using std::chrono::seconds;

struct DemoOptions {
  std::uint64_t bytes = 64U << 20U;
  std::uint64_t steps = 20;
  double limit_s = 120;
};

constexpr std::uint32_t kFounders = 4;
// A short silence keeps the demo short. Over the internet the defaults are better.
constexpr std::string_view kHeartbeatMs = "200";
constexpr std::string_view kSilenceMs = "1500";
// The steps at which the faults begin. Each fault begins when the one before is over.
constexpr std::uint64_t kKillAt = 4;
constexpr std::uint64_t kLeaveAt = 7;
constexpr std::uint64_t kJoinAt = 9;
constexpr std::uint64_t kStopAt = 13;
constexpr std::uint64_t kStepsAfterReturn = 3;

double seconds_since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

struct Report {
  std::size_t child = 0;
  std::uint64_t view = 0;
  std::uint32_t world = 0;
  double seconds = 0;
  std::uint32_t retries = 0;
  std::uint32_t wrong = 0;
  std::string hash;
};

struct Member {
  std::string name;
  bool founder = false;
  bool member = false;
  std::uint64_t last_step = 0;
  std::optional<std::uint64_t> joined_at;  // step of the state when the peer last joined
  std::string out_status;                  // status when the peer lost the run
  std::string out_text;
  bool said_left = false;
  bool said_finished = false;
  std::optional<int> end;  // from waitpid()
};

// A fault that the demo has caused: a peer that was killed or stopped.
struct Fault {
  std::optional<std::size_t> child;
  std::uint64_t step = 0;  // that the peer was in
  std::uint64_t view = 0;  // the newest at that time
};

// The steps of all peers, as the peers report them, and the table that is printed.
class StepTable {
 public:
  using Steps = std::map<std::uint64_t, std::vector<Report>>;
  struct Counts {
    std::uint64_t compared = 0;  // states
    std::uint64_t differ = 0;    // states
    std::uint64_t wrong = 0;     // elements
  };

  explicit StepTable(std::uint64_t bytes) : bytes_(bytes) {}

  void add(std::uint64_t step, const Report& report) {
    newest_ = std::max(newest_, step);
    newest_view_ = std::max(newest_view_, report.view);
    steps_[step].push_back(report);
  }

  // Prints the steps whose reports are complete. A peer reports a step before it starts the next one. So when a peer
  // has reported step n + 2, a report of step n that is missing will never come.
  void close(bool all) {
    for (auto it = steps_.upper_bound(closed_); it != steps_.end(); it = steps_.upper_bound(closed_)) {
      const auto& [step, reports] = *it;
      if (!all && reports.size() < reports.front().world && newest_ < step + 2) return;
      closed_ = step;
      print_step(step, reports);
    }
  }

  [[nodiscard]] std::uint64_t newest() const { return newest_; }
  [[nodiscard]] std::uint64_t newest_view() const { return newest_view_; }
  [[nodiscard]] const Steps& steps() const { return steps_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] Steps::const_iterator first_after_view(std::uint64_t view) const {
    return std::find_if(steps_.begin(), steps_.end(), [&](const auto& step) { return step.second.back().view > view; });
  }

 private:
  void print_step(std::uint64_t step, const std::vector<Report>& reports) {
    const Report& first = reports.front();
    double slowest = 0;
    std::uint32_t retries = 0;
    std::size_t equal = 0;
    for (const Report& report : reports) {
      slowest = std::max(slowest, report.seconds);
      retries = std::max(retries, report.retries);
      equal += report.hash == first.hash && report.world == first.world ? 1 : 0;
      counts_.wrong += report.wrong;
      ++counts_.compared;
    }
    counts_.differ += reports.size() - equal;
    const double n = first.world;
    const double bus = static_cast<double>(bytes_) / slowest * 2 * (n - 1) / n * 1e-9;
    fmt::print("{:5} {:5} {:6} {:9.1f} {:9.3f}  {}   {} of {}{}{}\n", step, first.view, first.world, slowest * 1e3, bus,
               first.hash, equal, reports.size(), equal == reports.size() ? "" : "  THEY DIFFER",
               retries == 0 ? "" : fmt::format("  ({} retr{})", retries, retries == 1 ? "y" : "ies"));
    std::fflush(stdout);
  }

  const std::uint64_t bytes_;  // all-reduced per step
  Steps steps_;
  std::uint64_t newest_ = 0;
  std::uint64_t newest_view_ = 0;
  std::uint64_t closed_ = 0;
  Counts counts_;
};

class Demo {
 public:
  explicit Demo(const DemoOptions& options) : options_(options), began_(Clock::now()), table_(options.bytes) {}

  int run() {
    start_coordinator();
    fmt::print("{} peers, one process each, all-reduce {} of f32 per step; the state has {}\n\n", kFounders,
               size_words(options_.bytes), size_words(Training::kWeights * sizeof(float)));
    fmt::print(" step  view  world   time ms  bus GB/s  state hash         peers that have it\n");
    std::fflush(stdout);
    for (std::uint32_t i = 0; i < kFounders; ++i) start_peer(true);

    const auto deadline =
        began_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.limit_s));
    while (!over()) {
      const Family::Event event = family_.next(deadline);
      if (std::holds_alternative<Family::Interrupted>(event)) {
        fmt::print("interrupted\n");
        return kExitInterrupted;
      }
      if (std::holds_alternative<Family::TimedOut>(event)) {
        problem(fmt::format("the demo has not ended after {:.0f} s; {}", options_.limit_s, where_we_are()));
        break;
      }
      if (const auto* const line = std::get_if<Family::Line>(&event)) on_line(*line);
      if (const auto* const ended = std::get_if<Family::Ended>(&event)) on_end(*ended);
      table_.close(false);
      tell_the_story();
      std::fflush(stdout);
    }
    table_.close(true);
    return verdict();
  }

 private:
  // ---- processes ----

  void start_coordinator() {
    coordinator_ = family_.start({"coordinator", "--listen", "127.0.0.1:0", "--heartbeat", std::string(kHeartbeatMs),
                                  "--silence", std::string(kSilenceMs), "--log", "none"});
    members_[coordinator_].name = "coordinator";
    const Family::Event event = family_.next(Clock::now() + seconds(10));
    const auto* const line = std::get_if<Family::Line>(&event);
    if (line == nullptr) throw Failure(kExitFailed, "the coordinator did not start");
    address_ = line->text.substr(line->text.rfind(' ') + 1);
    fmt::print("coordinator: process {} at {}; a peer that is silent for {} ms is lost\n", family_.pid(coordinator_),
               address_, kSilenceMs);
  }

  std::size_t start_peer(bool founder) {
    const std::string name = fmt::format("peer-{}", ++peers_started_);
    const std::size_t child =
        family_.start({"demo-peer", "--coordinator", address_, "--name", name, "--founders",
                       fmt::to_string(founder ? kFounders : 1), "--bytes", fmt::to_string(options_.bytes)});
    members_[child].name = name;
    members_[child].founder = founder;
    return child;
  }

  // The n-th started peer, from 1.
  [[nodiscard]] static std::size_t peer(std::uint32_t number) { return number; }  // child 0 is the coordinator

  // ---- reports of the processes ----

  void on_line(const Family::Line& line) {
    if (line.child == coordinator_) return;
    Member& member = members_[line.child];
    const nlohmann::json j = nlohmann::json::parse(line.text, nullptr, false);
    if (j.is_discarded()) return problem(fmt::format("{} said: {}", member.name, line.text));
    const std::string is = j.value("is", "");
    if (is == "joined") {
      member.member = true;
      member.joined_at = j.at("step").get<std::uint64_t>();
      if (*member.joined_at > 0 || !member.founder) {
        note(fmt::format("{} is in: view {}, took over the state of step {}: {}", member.name,
                         j.at("view").get<std::uint64_t>(), *member.joined_at,
                         size_words(j.at("received").get<std::uint64_t>())));
      }
    } else if (is == "begins") {
      on_begins(line.child, j.at("step").get<std::uint64_t>());
    } else if (is == "step") {
      const auto step = j.at("step").get<std::uint64_t>();
      member.last_step = step;
      Report report;
      report.child = line.child;
      report.view = j.at("view");
      report.world = j.at("world");
      report.seconds = j.at("seconds");
      report.retries = j.at("retries");
      report.wrong = j.at("wrong");
      report.hash = j.at("hash");
      table_.add(step, report);
    } else if (is == "out") {
      member.member = false;
      member.out_status = j.at("status");
      member.out_text = j.at("text");
      note(fmt::format("{} reports: {} ({}); its call: {}", member.name, member.out_status, member.out_text,
                       j.at("call").get<std::string>()));
      if (line.child != stop_.child) problem(fmt::format("{} lost the run without a cause", member.name));
    } else if (is == "left") {
      member.member = false;
      member.said_left = true;
      note(fmt::format("{} has left", member.name));
    } else if (is == "finished") {
      member.member = false;
      member.said_finished = true;
    }
  }

  void on_end(const Family::Ended& ended) {
    Member& member = members_[ended.child];
    member.member = false;
    member.end = ended.status;
    const bool expected =
        (WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == 0 &&
         (member.said_left || member.said_finished || stopping_coordinator_)) ||
        (ended.child == kill_.child && WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGKILL);
    if (!expected) {
      problem(fmt::format("{} {}", member.name, end_words(ended.status)));
      broken_ = true;
    }
  }

  // ---- faults ----

  void on_begins(std::size_t child, std::uint64_t step) {
    // The processes do not wait for this one: later lines may report further steps.
    if (child == kill_.child) kill_.step = step;
    if (child == stop_.child && !stopped_s_) stop_.step = step;
    if (!kill_.child && step >= kKillAt && child == peer(3)) {
      kill_.child = child;
      kill_.step = step;
      kill_.view = table_.newest_view();
      family_.signal(child, SIGKILL);
      note(fmt::format("{} is killed (SIGKILL) in step {}", members_[child].name, step));
    }
    if (!stop_.child && may_stop_ && step >= kStopAt && child == peer(4)) {
      stop_.child = child;
      stop_.step = step;
      stop_.view = table_.newest_view();
      stopped_at_ = Clock::now();
      family_.signal(child, SIGSTOP);
      note(fmt::format("{} is stopped (SIGSTOP) in step {}", members_[child].name, step));
    }
  }

  void tell_the_story() {
    const std::size_t leaver = peer(2);
    if (kill_.child && !told_to_leave_ && table_.newest() >= kLeaveAt && table_.newest_view() > kill_.view) {
      told_to_leave_ = true;
      family_.tell(leaver, "leave");
      note(fmt::format("{} is asked to leave", members_[leaver].name));
    }
    if (told_to_leave_ && newcomers_.empty() && table_.newest() >= kJoinAt && members_[leaver].end) {
      for (int i = 0; i < 2; ++i) newcomers_.push_back(start_peer(false));
      note(fmt::format("{} and {} are started", members_[newcomers_[0]].name, members_[newcomers_[1]].name));
    }
    may_stop_ = !newcomers_.empty() && std::all_of(newcomers_.begin(), newcomers_.end(),
                                                   [&](std::size_t child) { return members_[child].last_step > 0; });
    // Woken once the other peers have continued without it.
    if (stop_.child && !stopped_s_ && table_.newest_view() > stop_.view) {
      stopped_s_ = seconds_since(stopped_at_);
      family_.signal(*stop_.child, SIGCONT);
      note(fmt::format("the others continued; {} is woken (SIGCONT) after {:.1f} s", members_[*stop_.child].name,
                       *stopped_s_));
    }
    if (!finishing_ && back_for(kStepsAfterReturn) && table_.newest() >= options_.steps) {
      finishing_ = true;
      for (const auto& [child, member] : members_) family_.tell(child, "finish");
    }
    if (finishing_ && !stopping_coordinator_ && peers_running() == 0) {
      stopping_coordinator_ = true;
      family_.signal(coordinator_, SIGTERM);
    }
  }

  // Whether the stopped peer lost the run, rejoined and has completed `steps` steps since.
  [[nodiscard]] bool back_for(std::uint64_t steps) const {
    if (!stop_.child) return false;
    const Member& member = members_.at(*stop_.child);
    return !member.out_status.empty() && member.joined_at && *member.joined_at >= stop_.step &&
           member.last_step >= *member.joined_at + steps;
  }

  [[nodiscard]] std::size_t peers_running() const {
    std::size_t count = 0;
    for (const auto& [child, member] : members_) count += child != coordinator_ && !member.end ? 1 : 0;
    return count;
  }
  [[nodiscard]] bool over() const { return broken_ || (peers_running() == 0 && members_.at(coordinator_).end); }

  [[nodiscard]] std::string where_we_are() const {
    std::string text = fmt::format("newest step {}", table_.newest());
    for (const auto& [child, member] : members_) {
      if (!member.end)
        text += fmt::format(", {} {} step {}", member.name, member.member ? "in" : "out", member.last_step);
    }
    return text;
  }

  void note(const std::string& text) { fmt::print("      -- {}\n", text); }
  void problem(const std::string& text) {
    problems_.push_back(text);
    fmt::print("      !! {}\n", text);
  }

  // ---- verdict ----

  int verdict() {
    bool good = true;
    const auto claim = [&](bool holds, const std::string& text) {
      good = good && holds;
      fmt::print("  {}  {}\n", holds ? "yes" : "NO ", text);
    };
    fmt::print("\n");
    const StepTable::Counts& counts = table_.counts();
    claim(counts.differ == 0 && counts.compared > table_.steps().size(),
          fmt::format("equal to the last bit: {} steps, {} states compared, {} differ", table_.steps().size(),
                      counts.compared, counts.differ));
    claim(counts.wrong == 0 && counts.compared > 0,
          fmt::format("right: {} elements recomputed from the contributors' inputs, {} wrong",
                      counts.compared * Training::kSamples, counts.wrong));
    const auto without_it = table_.first_after_view(kill_.view);
    claim(
        kill_.child && without_it != table_.steps().end() && without_it->second.back().world == kFounders - 1,
        without_it == table_.steps().end()
            ? fmt::format("one peer was killed in step {}; no later step ended", kill_.step)
            : fmt::format("one peer was killed in step {}; step {} ended with {} peers after {:.0f} ms", kill_.step,
                          without_it->first, without_it->second.back().world, without_it->second.back().seconds * 1e3));
    claim(members_[peer(2)].said_left && members_[peer(2)].end == 0,
          "one peer left in order; no other peer saw an error");
    bool all_in = newcomers_.size() == 2;
    for (const std::size_t child : newcomers_)
      all_in = all_in && members_[child].last_step > *members_[child].joined_at;
    claim(all_in, "two peers joined, took over the state of the members, and took part");
    const std::string status = stop_.child ? members_[*stop_.child].out_status : "was never stopped";
    claim(status == "evicted" && back_for(1),
          fmt::format("one peer was stopped for {:.1f} s, lost the run ({}) and rejoined with a new communicator",
                      stopped_s_.value_or(0), status));
    claim(problems_.empty() && over(),
          fmt::format("every process ended as expected{}", problems_.empty() ? "" : ": " + problems_.front()));
    fmt::print("\n{} after {:.1f} s\n", good ? "It survived" : "IT DID NOT SURVIVE", seconds_since(began_));
    std::fflush(stdout);
    return good ? kExitOk : kExitFailed;
  }

  const DemoOptions& options_;
  const Clock::time_point began_;
  Family family_;
  std::size_t coordinator_ = 0;
  std::string address_;
  std::uint32_t peers_started_ = 0;
  std::map<std::size_t, Member> members_;  // by child
  StepTable table_;

  Fault kill_;
  bool told_to_leave_ = false;
  std::vector<std::size_t> newcomers_;
  bool may_stop_ = false;
  Fault stop_;
  Clock::time_point stopped_at_;
  std::optional<double> stopped_s_;  // time that the peer was stopped, once it is woken
  bool finishing_ = false;
  bool stopping_coordinator_ = false;
  bool broken_ = false;

  std::vector<std::string> problems_;
};

}  // namespace

Run add_demo(CLI::App& app) {
  CLI::App* command = app.add_subcommand("demo", "kills, stops and starts peers of a run, and compares their states");
  auto options = std::make_shared<DemoOptions>();
  command->add_option("--bytes", options->bytes, "bytes all-reduced per step; 64M")
      ->transform(size_text())
      ->check(CLI::Range(std::uint64_t{4}, std::uint64_t{1} << 34U))
      ->capture_default_str();
  command->add_option("--steps", options->steps, "smallest number of steps; the story needs about 20")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->add_option("--limit", options->limit_s, "s after which the demo counts as failed")
      ->check(CLI::Range(1.0, 86'400.0))
      ->capture_default_str();
  command->footer(R"(
Starts a coordinator and 4 peers as processes of their own. In each step the peers all-reduce a tensor and advance a
small training state with it. One peer is killed, one leaves, two join, and one is stopped until it counts as lost, and
woken. Prints a line per step: the view, the number of contributors, the time of the slowest peer, the bandwidth, and
the hash of the state, which every peer computes itself. Exit code 1 if hashes differed or another promise was broken.

Examples:
  lockstep demo
  lockstep demo --bytes 1M                     quicker)");
  return [options] { return Demo(*options).run(); };
}

}  // namespace lockstep::cli
