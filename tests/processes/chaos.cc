// Real processes train through random kills, stops and joins. Every report of a step is compared with the others.
//
// The driver forks a coordinator and peers. At random moments it kills a peer (SIGKILL), starts one, or stops one for
// longer than the silence timeout and lets it continue: that peer must learn that it was evicted, and rejoin as a
// newcomer. --seed determines the faults and their times; what they hit depends on the machine. Exits with 1 if two
// reports of one step differ, a process ends unexpectedly, an untouched peer loses the run, or there is no progress.
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/rng.h"
#include "core/wire/describe.h"
#include "sim/flight/audit.h"
#include "tests/processes/chaos_settings.h"
#include "tests/processes/chaos_trainer.h"
#include "tests/processes/coordinator_process.h"
#include "tests/processes/shared_journal.h"
#include "transport/status_client.h"

namespace lockstep::testing {
namespace {

struct Actor {
  using Main = std::function<int(Parent&, const SharedJournal&)>;
  Actor(std::string its_name, const Main& main)
      : name(std::move(its_name)), process([&](Parent& parent) { return main(parent, journal); }) {}
  std::string name;
  SharedJournal journal;
  Process process;
  bool has_state = false;  // has reported a step in its present life
  bool stopped = false;
  bool was_stopped = false;  // in its present life
  bool killed = false;
  bool done = false;
  bool over = false;  // exited
  Instant resume_at;
  std::string phase = "starting";
  std::deque<std::string> log;
};

struct StepReport {
  std::string hashes;  // state, contributors, results
  std::string first;   // the first peer that reported it
  std::size_t reports = 0;
};

class Driver {
 public:
  explicit Driver(const ChaosSettings& settings) : settings_(settings), coordinator_(machine_options(settings), true) {}

  int run() {
    if (coordinator_.address.empty()) return complain("the coordinator did not start"), 1;
    started_ = last_step_at_ = monotonic_now();
    for (std::uint64_t i = 0; i < settings_.peers; ++i) start_peer(static_cast<std::uint32_t>(settings_.peers));
    next_fault_ = started_ + until_next_fault();
    while (!failed_ && !all_over()) {
      wait_for_news();
      for (auto& actor : actors_) hear(*actor);
      hear_coordinator();
      wake_the_stopped();
      if (ending_)
        finish();
      else if (monotonic_now() >= next_fault_)
        fault();
      if (monotonic_now() - last_step_at_ > seconds(static_cast<std::int64_t>(settings_.stuck_s))) {
        complain("no step for " + std::to_string(settings_.stuck_s) + " s");
      }
    }
    if (!failed_) check_the_end();
    judge();
    if (failed_) dump();
    summarize();
    return failed_ ? 1 : 0;
  }

 private:
  static coordinator::CoordinatorOptions machine_options(const ChaosSettings& settings) {
    coordinator::CoordinatorOptions options;
    options.silence = milliseconds(static_cast<std::int64_t>(settings.silence_ms));
    options.heartbeat = options.silence / 6;  // as in the defaults
    return options;
  }

  void complain(const std::string& what) {
    std::printf("FAILED at %.3f s: %s\n", (monotonic_now() - started_).seconds(), what.c_str());
    failed_ = true;
  }

  void tell(const std::string& what) const {
    if (settings_.verbose) std::printf("%8.3f s  %s\n", (monotonic_now() - started_).seconds(), what.c_str());
  }

  void start_peer(std::uint32_t founders) {
    std::string name = "p" + std::to_string(born_++);
    const ChaosSettings settings = settings_;
    const std::string address = coordinator_.address;
    actors_.push_back(std::make_unique<Actor>(name, [=](Parent& parent, const SharedJournal& journal) {
      return train(parent, settings, address, name, founders, journal);
    }));
  }

  // ---- news ----

  void wait_for_news() {
    std::vector<pollfd> files{{coordinator_.process.file(), POLLIN, 0}};
    for (const auto& actor : actors_) {
      if (!actor->over) files.push_back({actor->process.file(), POLLIN, 0});
    }
    ::poll(files.data(), files.size(), 20);  // interval of checks for faults and hangs
  }

  void hear_coordinator() {
    coordinator_.process.take_in();
    while (const auto line = coordinator_.process.next_line()) remember(coordinator_log_, *line);
    if (coordinator_.process.ended()) {
      complain("the coordinator ended: " + exit_words(coordinator_.process.exit_status(seconds(5)).value_or(0)));
    }
  }

  void remember(std::deque<std::string>& log, const std::string& line) const {
    char at[32];
    std::snprintf(at, sizeof at, "%.3f ", (monotonic_now() - started_).seconds());
    log.push_back(at + line.substr(2));
    if (log.size() > 60) log.pop_front();
  }

  void hear(Actor& actor) {
    if (actor.over) return;
    actor.process.take_in();
    while (const auto line = actor.process.next_line()) take_line(actor, *line);
    if (actor.process.ended()) on_exit(actor);
  }

  void take_line(Actor& actor, const std::string& line) {
    const std::string rest = line.size() > 2 ? line.substr(2) : "";
    switch (line[0]) {
      case 'P': actor.phase = rest; return;
      case 'L': remember(actor.log, line); return;
      case 'J': tell(actor.name + " is in"); return;
      case 'E': complain(actor.name + ": " + rest); return;
      case 'D':
        actor.done = true;
        ending_ = true;
        return;
      case 'R':
        tell(actor.name + " lost the run: " + rest);
        if (!actor.was_stopped) complain(actor.name + " lost the run although nobody touched it: " + rest);
        ++(actor.has_state ? evicted_members_ : evicted_waiting_);
        actor.was_stopped = actor.stopped;
        actor.has_state = false;
        return;
      case 'S': on_step(actor, rest); return;
      default: complain(actor.name + " says " + line);
    }
  }

  void on_step(Actor& actor, const std::string& report) {
    std::istringstream words(report);
    std::uint64_t step = 0;
    std::uint64_t view = 0;
    std::uint64_t world = 0;
    std::uint64_t retries = 0;
    std::string state, contributors, results;
    words >> step >> state >> contributors >> results >> view >> world >> retries;
    if (!words) return complain(actor.name + " reports " + report);
    actor.has_state = true;
    views_ = std::max(views_, view);
    retries_ += retries;
    ++worlds_[world];
    StepReport& seen = steps_[step];
    const std::string hashes = state + " " + contributors + " " + results;
    if (seen.reports++ == 0) {
      seen.hashes = hashes;
      seen.first = actor.name;
      last_step_at_ = monotonic_now();
      tell("step " + std::to_string(step) + " view " + std::to_string(view) + " world " + std::to_string(world));
    } else if (seen.hashes != hashes) {
      complain("step " + std::to_string(step) + ": " + seen.first + " has " + seen.hashes + ", " + actor.name +
               " has " + hashes + " (state, contributors, results)");
    }
  }

  void on_exit(Actor& actor) {
    const auto status = actor.process.exit_status(seconds(10));
    actor.over = true;
    const bool as_told = actor.killed && status && WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL;
    const bool finished = actor.done && status && *status == 0;
    if (!as_told && !finished) {
      complain(actor.name + " ended by itself: " + (status ? exit_words(*status) : "it closed its pipe"));
    }
  }

  // ---- faults ----

  [[nodiscard]] Duration until_next_fault() const {
    // From a quarter to seven quarters of the mean.
    const std::uint64_t mean_us = settings_.mean_fault_ms * 1000;
    return microseconds(
        static_cast<std::int64_t>(mean_us / 4 + below(draw(settings_.seed, kFaultTime, faults_), 1 + mean_us * 3 / 2)));
  }

  void fault() {
    const std::uint64_t dice = below(draw(settings_.seed, kFault, faults_), 100);
    const std::uint64_t victim = draw(settings_.seed, kVictim, faults_);
    next_fault_ = monotonic_now() + until_next_fault();
    ++faults_;
    std::vector<Actor*> standing;  // candidates: running peers, as long as enough peers with the state remain
    std::size_t alive = 0;
    std::size_t keepers = 0;
    for (auto& actor : actors_) {
      if (actor->over || actor->killed) continue;
      ++alive;
      if (actor->stopped) continue;
      standing.push_back(actor.get());
      if (actor->has_state) ++keepers;
    }
    if (dice >= 60 && alive < kMostAlive) return ++joins_, start_peer(kNeverFounds);
    std::erase_if(standing, [&](const Actor* a) { return a->has_state && keepers <= kLeastAlive; });
    if (steps_.empty() || standing.empty()) return;
    Actor& actor = *standing[below(victim, standing.size())];
    if (dice >= 40 && dice < 60) {
      tell("stop " + actor.name);
      ++stops_;
      actor.stopped = actor.was_stopped = true;
      actor.resume_at = monotonic_now() + milliseconds(static_cast<std::int64_t>(settings_.silence_ms * 3 / 2));
      actor.process.signal(SIGSTOP);
    } else {
      tell("kill " + actor.name);
      ++kills_;
      actor.killed = true;
      actor.process.signal(SIGKILL);
    }
  }

  void wake_the_stopped() {
    for (auto& actor : actors_) {
      if (!actor->stopped || actor->killed || monotonic_now() < actor->resume_at) continue;
      tell("wake " + actor->name);
      actor->stopped = false;
      actor->process.signal(SIGCONT);
    }
  }

  // The first peer has finished: peers with the state finish, too; the others have no run left to join.
  void finish() {
    for (auto& actor : actors_) {
      if (actor->over || actor->killed || (actor->has_state && !actor->stopped)) continue;
      actor->killed = true;
      actor->process.signal(SIGKILL);
    }
  }

  // ---- the end ----

  [[nodiscard]] bool all_over() const {
    return std::all_of(actors_.begin(), actors_.end(), [](const auto& actor) { return actor->over; });
  }

  void check_the_end() {
    if (steps_.size() != settings_.steps || steps_.rbegin()->first != settings_.steps) {
      complain("steps are missing: " + std::to_string(steps_.size()) + " of " + std::to_string(settings_.steps));
    }
    const auto status = transport::query_status(coordinator_.address, seconds(10));
    if (!status.ok()) return complain("the coordinator does not answer: " + status.error().text);
    if (!status->rounds.empty() || status->proposal_open) complain("the coordinator still has work to do");
    for (const wire::Member& member : status->view.members) complain(member.name + " is still a member");
  }

  // Checks the observations of all peers with the checkers of the simulator.
  void judge() {
    for (const auto& actor : actors_) {
      const std::string wrong = actor->journal.tell(audit_);
      if (!wrong.empty()) complain(actor->name + " has written " + wrong);
    }
    for (const sim::Failure& failure : audit_.judge()) complain(failure.promise + " is broken: " + failure.text);
  }

  void dump() {
    std::printf("---- the coordinator says\n");
    const auto status = transport::query_status(coordinator_.address, seconds(5));
    std::printf("%s\n", status.ok() ? wire::describe(wire::Message(*status)).c_str() : status.error().text.c_str());
    for (const std::string& line : coordinator_log_) std::printf("    %s\n", line.c_str());
    for (const auto& actor : actors_) {
      if (actor->over && actor->killed) continue;
      std::printf("---- %s: in %s%s%s\n", actor->name.c_str(), actor->phase.c_str(), actor->stopped ? ", stopped" : "",
                  actor->over ? ", over" : "");
      for (const std::string& line : actor->log) std::printf("    %s\n", line.c_str());
    }
  }

  void summarize() const {
    std::size_t reports = 0;
    for (const auto& [step, seen] : steps_) reports += seen.reports;
    std::printf("chaos: %s: %zu steps in %.1f s (seed %" PRIu64 "): %zu reports, %" PRIu64 " kills, %" PRIu64
                " stops, %" PRIu64 " joins, %" PRIu64 " evicted and back (%" PRIu64
                " of them while they waited), %" PRIu64 " views, %" PRIu64 " retries; world sizes",
                failed_ ? "FAILED" : "ok", steps_.size(), (monotonic_now() - started_).seconds(), settings_.seed,
                reports, kills_, stops_, joins_, evicted_members_ + evicted_waiting_, evicted_waiting_, views_,
                retries_);
    for (const auto& [world, count] : worlds_) std::printf(" %" PRIu64 ":%" PRIu64, world, count);
    const sim::Audit::Sums sums = audit_.sums();
    std::printf("; judged: %zu calls of %zu peers, %zu rounds, %zu views\n", sums.calls, sums.peers, sums.rounds,
                sums.views);
  }

  const ChaosSettings settings_;
  CoordinatorProcess coordinator_;
  std::vector<std::unique_ptr<Actor>> actors_;
  std::deque<std::string> coordinator_log_;
  sim::Audit audit_;
  std::map<std::uint64_t, StepReport> steps_;
  std::map<std::uint64_t, std::uint64_t> worlds_;  // reports by world size
  Instant started_;
  Instant last_step_at_;
  Instant next_fault_;
  std::uint64_t born_ = 0;
  std::uint64_t faults_ = 0;
  std::uint64_t kills_ = 0;
  std::uint64_t stops_ = 0;
  std::uint64_t joins_ = 0;
  std::uint64_t evicted_members_ = 0;
  std::uint64_t evicted_waiting_ = 0;
  std::uint64_t views_ = 0;
  std::uint64_t retries_ = 0;
  bool ending_ = false;
  bool failed_ = false;
};

}  // namespace
}  // namespace lockstep::testing

int main(int argc, char** argv) {
  lockstep::testing::ChaosSettings settings;
  const std::map<std::string, std::uint64_t*> numbers = {
      {"--steps", &settings.steps},           {"--seed", &settings.seed},
      {"--peers", &settings.peers},           {"--mean-fault-ms", &settings.mean_fault_ms},
      {"--compute-ms", &settings.compute_ms}, {"--max-count", &settings.max_count},
      {"--silence-ms", &settings.silence_ms}, {"--stuck-s", &settings.stuck_s},
  };
  for (int i = 1; i < argc; ++i) {
    const auto number = numbers.find(argv[i]);
    if (std::strcmp(argv[i], "--verbose") == 0) {
      settings.verbose = true;
    } else if (number != numbers.end() && i + 1 < argc) {
      *number->second = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::fprintf(stderr, "usage: lockstep_chaos [--verbose] [NAME NUMBER]...; names and defaults:\n");
      for (const auto& [name, value] : numbers) {
        std::fprintf(stderr, "  %-16s %llu\n", name.c_str(), static_cast<unsigned long long>(*value));
      }
      return 2;
    }
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return lockstep::testing::Driver(settings).run();
}
