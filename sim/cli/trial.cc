#include "sim/cli/trial.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>

#include <nlohmann/json.hpp>

#include "sim/cli/report_json.h"
#include "sim/world/witness.h"
#include "sim/world/world.h"

namespace lockstep::sim {
namespace {

// The memory that the parent can still read when the child is dead.
struct Seen {
  std::uint64_t events = 0;
  std::int64_t at_ns = 0;
  std::uint64_t launches = 0;
  std::uint64_t collectives = 0;
};

class SharedSeen {
 public:
  SharedSeen() {
    void* const memory = ::mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no memory to share with a child process");
    seen_ = new (memory) Seen;
  }
  ~SharedSeen() { ::munmap(seen_, sizeof(Seen)); }
  SharedSeen(const SharedSeen&) = delete;
  SharedSeen& operator=(const SharedSeen&) = delete;
  [[nodiscard]] Seen& get() const { return *seen_; }

 private:
  Seen* seen_;
};

class Counter final : public Witness {
 public:
  explicit Counter(Seen& seen) : seen_(seen) {}
  void happens(const Event&, Instant now) override {
    seen_.events += 1;
    seen_.at_ns = now.ns;
  }
  void launched(const Call& call) override {
    seen_.launches += 1;
    rounds_.emplace(call.launch.cohort, call.group, call.request.tag, call.launch.use);
    seen_.collectives = rounds_.size();
  }

 private:
  Seen& seen_;
  std::set<std::tuple<CohortId, GroupId, Tag, std::uint32_t>> rounds_;
};

// The last line of the child's output is its report; its stderr arrives by the same pipe.
[[noreturn]] void run_here(const Plan& plan, Seen& seen, int out) {
  ::dup2(out, STDERR_FILENO);
  Counter counter(seen);
  WorldOptions options;
  options.witness = &counter;
  const std::string line = "\n" + to_json(run(plan, options)).dump() + "\n";
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::write(out, line.data() + done, line.size() - done);
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  _exit(0);
}

// Reads until the other end is closed. False: a time-out, or a key was pressed.
bool read_all(int in, double limit_s, std::string& text) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd fd{in, POLLIN, 0};
    if (left <= 0 || ::poll(&fd, 1, static_cast<int>(left)) <= 0) return false;
    char bytes[65536];
    const ssize_t n = ::read(in, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) return false;
    if (n <= 0) return true;
    text.append(bytes, static_cast<std::size_t>(n));
  }
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

Tried try_plan(const Plan& plan, double limit_s) {
  const SharedSeen seen;
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe for a child process");
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("no child process");
  if (pid == 0) {
    ::close(ends[0]);
    run_here(plan, seen.get(), ends[1]);
  }
  ::close(ends[1]);
  std::string text;
  Tried tried;
  tried.given_up = !read_all(ends[0], limit_s, text);
  if (tried.given_up) ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  ::close(ends[0]);
  tried.collectives = seen.get().collectives;
  if (tried.given_up) return tried;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    tried.report = report_from(nlohmann::json::parse(last_line(text)));
    return tried;
  }
  tried.given_up = WIFSIGNALED(status) && WTERMSIG(status) == SIGINT;
  tried.report.seed = plan.seed;
  tried.report.peers = plan.peers;
  tried.report.events = seen.get().events;
  tried.report.time_ns = seen.get().at_ns;
  tried.report.launches = seen.get().launches;
  const std::string words = last_line(text);
  tried.report.failure =
      Failure{"crash", words.empty() ? "the process died without a word" : words, seen.get().at_ns, seen.get().events};
  return tried;
}

}  // namespace lockstep::sim
