#include "bindings/cli/family.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>
#include <utility>

#include "bindings/cli/command.h"

namespace lockstep::cli {
namespace {

sigset_t interrupts() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

Failure system_failure(std::string_view what) {
  return {kExitFailed, fmt::format("{}: {}", what, std::strerror(errno))};
}

// The child's side of start(), between fork() and exec: only calls that are allowed there.
[[noreturn]] void become(char* const* arguments, int in, int out, pid_t parent) {
  const sigset_t set = interrupts();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  // The kernel kills the child when this process dies in any way. If this process is dead already, the child exits.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(kExitFailed);
  if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0) _exit(kExitFailed);
  execv("/proc/self/exe", arguments);
  _exit(kExitFailed);
}

}  // namespace

Family::Family() {
  const sigset_t set = interrupts();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // tell() may write to a child that has just died
  signals_ = signalfd(-1, &set, SFD_CLOEXEC);
  if (signals_ < 0) throw system_failure("signalfd");
}

Family::~Family() {
  for (Child& child : children_) {
    if (child.pid > 0) ::kill(child.pid, SIGKILL);
  }
  for (Child& child : children_) {
    if (child.pid > 0) ::waitpid(child.pid, nullptr, 0);
    if (child.in >= 0) ::close(child.in);
    if (child.out >= 0) ::close(child.out);
  }
  ::close(signals_);
}

std::size_t Family::start(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"lockstep"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> raw;
  raw.reserve(words.size() + 1);
  for (std::string& word : words) raw.push_back(word.data());
  raw.push_back(nullptr);

  std::array<int, 2> in{};
  std::array<int, 2> out{};
  if (::pipe2(in.data(), O_CLOEXEC) != 0) throw system_failure("pipe");
  if (::pipe2(out.data(), O_CLOEXEC) != 0) {
    ::close(in[0]);
    ::close(in[1]);
    throw system_failure("pipe");
  }
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(raw.data(), in[0], out[1], parent);
  ::close(in[0]);
  ::close(out[1]);
  if (pid < 0) {
    ::close(in[1]);
    ::close(out[0]);
    throw system_failure("cannot start a process");
  }
  children_.push_back({pid, in[1], out[0], {}});
  return children_.size() - 1;
}

Family::Event Family::next(Clock::time_point deadline) {
  while (events_.empty()) {
    std::vector<pollfd> places{{signals_, POLLIN, 0}};
    std::vector<std::size_t> owners;
    for (std::size_t i = 0; i < children_.size(); ++i) {
      if (children_[i].out < 0) continue;
      places.push_back({children_[i].out, POLLIN, 0});
      owners.push_back(i);
    }
    int wait = -1;
    if (deadline != Clock::time_point::max()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      wait = static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
    }
    const int ready = ::poll(places.data(), places.size(), wait);
    if (ready < 0 && errno != EINTR) throw system_failure("poll");
    if (ready == 0) return TimedOut{};
    if (ready < 0) continue;
    if (places[0].revents != 0) {
      signalfd_siginfo info{};
      if (::read(signals_, &info, sizeof info) == sizeof info) {
        events_.emplace_back(Interrupted{static_cast<int>(info.ssi_signo)});
      }
    }
    for (std::size_t i = 0; i < owners.size(); ++i) {
      if (places[i + 1].revents != 0) read_some(owners[i]);
    }
  }
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Family::read_some(std::size_t index) {
  Child& child = children_[index];
  std::array<char, 16384> bytes{};
  const ssize_t n = ::read(child.out, bytes.data(), bytes.size());
  if (n < 0 && errno == EINTR) return;
  if (n <= 0) return reap(index);
  child.unfinished.append(bytes.data(), static_cast<std::size_t>(n));
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = child.unfinished.find('\n', begin)) != std::string::npos; begin = end + 1) {
    events_.emplace_back(Line{index, child.unfinished.substr(begin, end - begin)});
  }
  child.unfinished.erase(0, begin);
}

// The child's stdout has ended, so the child has exited or is about to.
void Family::reap(std::size_t index) {
  Child& child = children_[index];
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!child.unfinished.empty()) events_.emplace_back(Line{index, std::exchange(child.unfinished, {})});
  ::close(std::exchange(child.in, -1));
  ::close(std::exchange(child.out, -1));
  child.pid = 0;
  events_.emplace_back(Ended{index, status});
}

void Family::tell(std::size_t child, std::string_view line) {
  if (!running(child)) return;
  const std::string text = fmt::format("{}\n", line);
  // A short write into an empty pipe succeeds completely or not at all. The death of a child is an event of its own.
  [[maybe_unused]] const ssize_t n = ::write(children_[child].in, text.data(), text.size());
}

void Family::signal(std::size_t child, int number) {
  if (running(child)) ::kill(children_[child].pid, number);
}

std::string end_words(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {}", WTERMSIG(status));
  return fmt::format("exited with code {}", WEXITSTATUS(status));
}

}  // namespace lockstep::cli
