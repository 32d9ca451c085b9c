// Measures what strangers cost a run. Members reduce and admit while some die and others join: first undisturbed, then
// with the ports of all members and of the coordinator kept full by connections that are silent, send nonsense, or
// repeat what they heard elsewhere. Prints the times of steps and joins, and the sizes of the logs. Exits with 1 if a
// healthy member lost the run, a sum was wrong, a log is longer than 64 KiB, the coordinator's memory grew by 32 MiB
// more than undisturbed, or a step took more than twice (plus 20 ms) the longest undisturbed step. With --tls the run
// has a token, and strangers begin handshakes.
#include <poll.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/rng.h"
#include "tests/processes/attacker.h"
#include "tests/processes/coordinator_process.h"
#include "tests/processes/shared_journal.h"
#include "transport/communicator.h"

namespace lockstep::testing {
namespace {

constexpr std::size_t kCount = std::size_t{64} * 1024 / sizeof(float);
constexpr std::uint64_t kStepsPerAdmit = 4;
constexpr Duration kPatience = seconds(60);
constexpr std::size_t kLongestLog = 64U << 10U;
constexpr double kMostMib = 32;

struct Settings {
  std::size_t members = 8;
  std::int64_t seconds = 60;
  std::int64_t churn_ms = 2000;  // from one death to the next
  std::int64_t compute_ms = 5;   // of each step
  std::uint64_t seed = 1;
  bool strict = true;  // exit with 1 if a step takes too long
  Streams streams = Streams::kPlain;
  AttackerOptions attack;
};

// The data of one member, readable after its death.
struct Member {
  Member(const std::string& coordinator, std::uint32_t founders, std::int64_t compute_ms)
      : process([this, coordinator, founders, compute_ms](Parent& parent) {
          return train(parent, coordinator, founders, compute_ms);
        }) {}
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  ~Member() = default;

  int train(Parent& parent, const std::string& coordinator, std::uint32_t founders, std::int64_t compute_ms) const {
    transport::CommunicatorOptions options;
    options.listen_host = "127.0.0.1";
    options.peer.founders = founders;
    options.log = [this](std::string_view line) { log.write(line); };
    options.journal = [this](std::string_view line) { journal.write(line); };
    auto made = transport::Communicator::create(options);
    if (!made.ok()) return 1;
    transport::Communicator& comm = **made;
    const transport::Work connecting = comm.connect(coordinator);
    connecting.wait();
    if (connecting.outcome().status != Status::kOk) return fail(parent, connecting.outcome());
    const auto view = comm.view();
    for (const wire::Member& member : view->members) {
      if (member.id == comm.self()) parent.say("M " + std::to_string(member.address.port));
    }
    const std::vector<float> input(kCount, 1.0F);
    std::vector<float> output(kCount);
    bool admits = false;
    for (;;) {
      (void)::poll(nullptr, 0, static_cast<int>(compute_ms));  // simulates computation on an accelerator
      const Instant began = monotonic_now();
      if (admits) {
        const transport::Work admitting = comm.admit();
        admitting.wait();
        if (admitting.outcome().status != Status::kOk) return fail(parent, admitting.outcome());
      }
      transport::LaunchArgs args;
      args.collective = wire::Collective::kAllReduce;
      args.type = DataType::kF32;
      args.tensors.push_back({input.data(), output.data(), kCount, 0});
      const auto work = comm.launch(args);
      if (!work.ok()) return 1;
      work->wait();
      const transport::Outcome& outcome = work->outcome();
      if (outcome.status != Status::kOk) return fail(parent, outcome);
      const auto right = static_cast<float>(outcome.world);
      if (output.front() != right || output.back() != right) {
        parent.say("E a sum that is not that of its contributors");
        return 1;
      }
      // A newcomer does not know how many steps the others have made; the use of the round, known to all members,
      // determines the next admit.
      admits = (outcome.round.use + 1) % kStepsPerAdmit == 0;
      const Instant now = monotonic_now();
      steps.write(std::to_string((now - began).ns));
    }
  }

  static int fail(Parent& parent, const transport::Outcome& outcome) {
    parent.say("E " + std::string(status_name(outcome.status)) + ": " + outcome.text);
    return 1;
  }

  const SharedJournal log;
  const SharedJournal journal;
  const SharedJournal steps;
  std::uint16_t port = 0;
  Process process;
};

struct Figures {
  std::vector<double> steps_ms;
  std::vector<double> joins_ms;
  std::size_t coordinator_log = 0;
  double coordinator_mib = 0;  // of memory, beyond what it had when it began
  std::size_t longest_log = 0;
  bool failed = false;

  void sort() {
    std::sort(steps_ms.begin(), steps_ms.end());
    std::sort(joins_ms.begin(), joins_ms.end());
  }
};

// Most memory that the process had.
double resident_mib(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / 1024;
  }
  return 0;
}

double percentile(const std::vector<double>& sorted, double percent) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(static_cast<double>(sorted.size() - 1) * percent / 100)];
}

class Bench {
 public:
  Bench(const Settings& settings, bool attacked)
      : settings_(settings), inherited_mib_(resident_mib(coordinator_.process.pid())) {
    if (attacked) attacker_.emplace(settings.attack);
  }

  Figures run() {
    if (attacker_) attacker_->attack_coordinator(port_of(coordinator_.address));
    for (std::size_t i = 0; i < settings_.members; ++i) start(static_cast<std::uint32_t>(settings_.members));
    const Instant patience = monotonic_now() + kPatience;
    for (auto& member : members_) wait_for(*member, patience);
    if (attacker_ && !attacker_->has_filled()) fail("the attacker did not fill the ports");
    const Instant end = monotonic_now() + Duration{settings_.seconds * 1'000'000'000};
    for (std::uint64_t n = 0; monotonic_now() < end && !figures_.failed; ++n) {
      watch_until(monotonic_now() + milliseconds(settings_.churn_ms / 2));
      kill_one(n);
      if (n % 4 == 3 && members_.size() > 2) kill_one(n + 1'000'000);  // two at the same time
      watch_until(monotonic_now() + milliseconds(settings_.churn_ms / 2));
      while (members_.size() < settings_.members && !figures_.failed) {
        const Instant began = monotonic_now();
        start(1);
        wait_for(*members_.back(), began + kPatience);
        figures_.joins_ms.push_back((monotonic_now() - began).seconds() * 1e3);
      }
    }
    sim::Audit audit;
    for (auto& member : members_) dead_.push_back(std::move(member));
    for (auto& member : dead_) {
      member->process.signal(SIGKILL);
      member->process.exit_status(kPatience);
      take(*member);
      const std::string wrong = member->journal.tell(audit);
      if (!wrong.empty()) fail(wrong);
    }
    for (const sim::Failure& failure : audit.judge()) fail(failure.promise + ": " + failure.text);
    figures_.coordinator_log = coordinator_log_.text().size();
    figures_.coordinator_mib = resident_mib(coordinator_.process.pid()) - inherited_mib_;
    figures_.sort();
    return figures_;
  }

 private:
  static std::uint16_t port_of(const std::string& address) {
    return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }

  void fail(const std::string& why) {
    std::printf("FAILED: %s\n", why.c_str());
    figures_.failed = true;
  }

  void start(std::uint32_t founders) {
    members_.push_back(std::make_unique<Member>(coordinator_.connect, founders, settings_.compute_ms));
  }

  void wait_for(Member& member, Instant patience) {
    const auto line = member.process.hear(patience - monotonic_now());
    if (!line || !line->starts_with("M ")) return fail("no member: " + line.value_or("no answer"));
    member.port = static_cast<std::uint16_t>(std::stoi(line->substr(2)));
    if (attacker_) attacker_->attack_member(member.port);
  }

  void watch_until(Instant end) {
    while (monotonic_now() < end && !figures_.failed) {
      for (auto& member : members_) {
        const auto line = member->process.hear(milliseconds(5));
        if (line || member->process.ended()) fail("a healthy member ended: " + line.value_or("it crashed"));
      }
    }
  }

  void kill_one(std::uint64_t n) {
    const std::size_t victim = below(draw(settings_.seed, 2, n), members_.size());
    members_[victim]->process.signal(SIGKILL);
    if (attacker_) attacker_->forget(members_[victim]->port);
    dead_.push_back(std::move(members_[victim]));
    members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(victim));
  }

  void take(const Member& member) {
    std::istringstream lines{std::string(member.steps.text())};
    for (std::int64_t ns = 0; lines >> ns;) figures_.steps_ms.push_back(static_cast<double>(ns) / 1e6);
    figures_.longest_log = std::max(figures_.longest_log, member.log.text().size());
  }

  const Settings settings_;
  SharedJournal coordinator_log_;
  CoordinatorProcess coordinator_{{}, coordinator_log_, settings_.streams};
  const double inherited_mib_;  // pages of this process, whose figures grow from one bench to the next
  std::optional<Attacker> attacker_;
  std::deque<std::unique_ptr<Member>> members_;
  std::vector<std::unique_ptr<Member>> dead_;
  Figures figures_;
};

void print(const char* what, const Figures& f) {
  std::printf(
      "%-12s %zu steps: median %.2f ms, 99 %% %.1f ms, 99.9 %% %.1f ms, slowest %.1f ms; %zu joins: median %.0f ms, "
      "slowest "
      "%.0f ms; coordinator: %.1f MiB more, log %zu bytes; log of a member at most %zu bytes\n",
      what, f.steps_ms.size(), percentile(f.steps_ms, 50), percentile(f.steps_ms, 99), percentile(f.steps_ms, 99.9),
      percentile(f.steps_ms, 100), f.joins_ms.size(), percentile(f.joins_ms, 50), percentile(f.joins_ms, 100),
      f.coordinator_mib, f.coordinator_log, f.longest_log);
  std::fflush(stdout);
}

int attack(const Settings& settings) {
  const Figures calm = Bench(settings, false).run();
  print("undisturbed", calm);
  if (calm.failed) return 1;
  const Figures attacked = Bench(settings, true).run();
  print("attacked", attacked);
  if (attacked.failed) return 1;
  bool good = true;
  if (std::max(attacked.coordinator_log, attacked.longest_log) > kLongestLog) {
    std::printf("FAILED: a log is longer than %zu bytes\n", kLongestLog);
    good = false;
  }
  if (attacked.coordinator_mib > calm.coordinator_mib + kMostMib) {
    std::printf("FAILED: the coordinator's memory grew by %.0f MiB more than undisturbed\n", kMostMib);
    good = false;
  }
  const double usual = percentile(calm.steps_ms, 100);
  const double limit = std::max(2 * usual, usual + 20);
  if (percentile(attacked.steps_ms, 100) > limit) {
    std::printf("%s: a step took longer than %.1f ms\n", settings.strict ? "FAILED" : "slow", limit);
    good = good && !settings.strict;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::testing

int main(int argc, char** argv) {
  lockstep::testing::Settings settings;
  for (int i = 1; i < argc; ++i) {
    const auto is = [&](const char* name) { return std::strcmp(argv[i], name) == 0; };
    const auto number = [&] { return std::strtoull(argv[++i], nullptr, 10); };
    if (is("--lenient")) {
      settings.strict = false;
    } else if (is("--tls")) {
      settings.streams = lockstep::testing::Streams::kTls;
      settings.attack.tls = true;
    } else if (i + 1 == argc) {
      std::fprintf(stderr,
                   "usage: lockstep_attack [--members N] [--seconds N] [--churn-ms N] [--compute-ms N] [--seed N] "
                   "[--idle N] [--round-ms N] [--joiners N] [--tls] [--hellos N] [--from ADDRESS] [--lenient]\n");
      return 2;
    } else if (is("--members")) {
      settings.members = number();
    } else if (is("--seconds")) {
      settings.seconds = static_cast<std::int64_t>(number());
    } else if (is("--churn-ms")) {
      settings.churn_ms = static_cast<std::int64_t>(number());
    } else if (is("--compute-ms")) {
      settings.compute_ms = static_cast<std::int64_t>(number());
    } else if (is("--seed")) {
      settings.seed = number();
    } else if (is("--idle")) {
      settings.attack.idle = static_cast<std::uint32_t>(number());
    } else if (is("--round-ms")) {
      settings.attack.round = lockstep::milliseconds(static_cast<std::int64_t>(number()));
    } else if (is("--joiners")) {
      settings.attack.joiners = static_cast<std::uint32_t>(number());
    } else if (is("--hellos")) {
      settings.attack.hellos = static_cast<std::uint32_t>(number());
    } else if (is("--from")) {
      settings.attack.from = argv[++i];
    } else {
      std::fprintf(stderr, "unknown: %s\n", argv[i]);
      return 2;
    }
  }
  return lockstep::testing::attack(settings);
}
