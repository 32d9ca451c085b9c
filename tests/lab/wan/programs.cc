#include "tests/lab/wan/programs.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <memory>
#include <string_view>
#include <utility>

#include "core/base/assert.h"

namespace lockstep::wan {
namespace {

struct Pipe {
  File from;
  File to;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("cannot make a pipe");
  return Pipe{File(ends[0]), File(ends[1])};
}

sigset_t events_of_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&set, number);
  return set;
}

void complain(std::string_view text) {
  [[maybe_unused]] const ssize_t put = ::write(STDERR_FILENO, text.data(), text.size());
}

// The first process of a process namespace: adopts and reaps orphans, and lives until `lifeline` ends, which no process
// of the namespace holds. When it goes, the kernel kills all the others.
[[noreturn]] void be_first(int lifeline) {
  ::setpgid(0, 0);  // Ctrl-C is not for us
  std::signal(SIGCHLD, SIG_IGN);
  ::dup2(lifeline, 3);
  ::close_range(4, ~0U, 0);
  char byte = 0;
  while (::read(3, &byte, 1) < 0 && errno == EINTR) {
  }
  ::_exit(0);
}

// The child's side of start(), between fork() and exec: only what is allowed there.
[[noreturn]] void become(char* const* words, const NetSpace& space, int out, int error) {
  ::setpgid(0, 0);
  const sigset_t set = events_of_signals();
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (::dup2(nothing, STDIN_FILENO) < 0 || ::dup2(out, STDOUT_FILENO) < 0 || ::dup2(error, STDERR_FILENO) < 0) {
    ::_exit(126);
  }
  if (!space.enter()) {
    complain("cannot enter the namespace\n");
    ::_exit(126);
  }
  ::execvp(words[0], words);
  complain("cannot run ");
  complain(words[0]);
  complain(errno == ENOENT ? ": no such program\n" : ": it cannot be executed\n");
  ::_exit(127);
}

}  // namespace

Result<std::unique_ptr<Programs>> Programs::make() {
  std::unique_ptr<Programs> programs(new Programs);
  const sigset_t set = events_of_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  programs->signals_ = File(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!programs->signals_.is_open()) return system_error("cannot make a file of signals");
  auto life = make_pipe();
  if (!life) return life.error();
  programs->home_ = File(::open("/proc/thread-self/ns/pid", O_RDONLY | O_CLOEXEC));
  if (::unshare(CLONE_NEWPID) != 0) return system_error("cannot make a process namespace");
  programs->first_ = ::fork();
  if (programs->first_ == 0) be_first(life->from.number());
  if (programs->first_ < 0) return system_error("cannot start a process");
  programs->lifeline_ = std::move(life->to);
  programs->inside_ = File(::open("/proc/thread-self/ns/pid_for_children", O_RDONLY | O_CLOEXEC));
  LOCKSTEP_ASSERT(::setns(programs->home_.number(), CLONE_NEWPID) == 0);
  if (!programs->inside_.is_open()) return system_error("cannot open a process namespace");
  return programs;
}

Programs::~Programs() {
  lifeline_.close();
  for (const Program& program : programs_) {
    if (program.pid > 0) ::waitpid(program.pid, nullptr, 0);
  }
  if (first_ > 0) ::waitpid(first_, nullptr, 0);  // it ends once all the others have been reaped
}

Result<std::size_t> Programs::start(const NetSpace& space, const std::vector<std::string>& words) {
  std::vector<std::string> copies = words;
  std::vector<char*> raw;
  raw.reserve(copies.size() + 1);
  for (std::string& word : copies) raw.push_back(word.data());
  raw.push_back(nullptr);
  auto out = make_pipe();
  if (!out) return out.error();
  auto error = make_pipe();
  if (!error) return error.error();
  if (::setns(inside_.number(), CLONE_NEWPID) != 0) return system_error("cannot enter a process namespace");
  const pid_t pid = ::fork();
  if (pid == 0) become(raw.data(), space, out->to.number(), error->to.number());
  LOCKSTEP_ASSERT(::setns(home_.number(), CLONE_NEWPID) == 0);
  if (pid < 0) return system_error("cannot start a process");
  ::setpgid(pid, pid);  // both do, so that a signal finds the group whoever is first
  Program program;
  program.pid = pid;
  program.outputs.push_back({std::move(out->from), false, {}});
  program.outputs.push_back({std::move(error->from), true, {}});
  for (const Output& output : program.outputs) ::fcntl(output.file.number(), F_SETFL, O_NONBLOCK);
  programs_.push_back(std::move(program));
  return programs_.size() - 1;
}

Programs::Event Programs::next(std::optional<Duration> timeout) {
  while (events_.empty()) {
    std::vector<pollfd> places{{signals_.number(), POLLIN, 0}};
    std::vector<std::pair<std::size_t, Output*>> owners;
    for (std::size_t who = 0; who < programs_.size(); ++who) {
      for (Output& output : programs_[who].outputs) {
        if (!output.file.is_open()) continue;
        places.push_back({output.file.number(), POLLIN, 0});
        owners.emplace_back(who, &output);
      }
    }
    const int limit = timeout ? static_cast<int>(timeout->ns / 1'000'000) : -1;
    const int ready = ::poll(places.data(), places.size(), limit);
    if (ready == 0) return TimedOut{};
    if (ready < 0) {
      LOCKSTEP_ASSERT(errno == EINTR);
      continue;
    }
    for (std::size_t i = 0; i < owners.size(); ++i) {
      if (places[i + 1].revents != 0) read_some(owners[i].first, *owners[i].second);
    }
    signalfd_siginfo info{};
    while (::read(signals_.number(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGCHLD) events_.emplace_back(Interrupted{static_cast<int>(info.ssi_signo)});
    }
    reap();
  }
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Programs::read_some(std::size_t who, Output& output) {
  std::array<char, 16'384> bytes{};
  bool at_end = false;
  while (!at_end) {
    const ssize_t got = ::read(output.file.number(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    at_end = got <= 0;
    if (!at_end) output.unfinished.append(bytes.data(), static_cast<std::size_t>(got));
  }
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = output.unfinished.find('\n', begin)) != std::string::npos; begin = end + 1) {
    events_.emplace_back(Said{who, output.error, output.unfinished.substr(begin, end - begin)});
  }
  output.unfinished.erase(0, begin);
  if (!at_end) return;
  if (!output.unfinished.empty()) events_.emplace_back(Said{who, output.error, std::move(output.unfinished)});
  output.unfinished.clear();
  output.file.close();
}

// What it had printed comes before its end. What its orphans print comes after it, or never.
void Programs::reap() {
  for (std::size_t who = 0; who < programs_.size(); ++who) {
    Program& program = programs_[who];
    int status = 0;
    if (program.pid == 0 || ::waitpid(program.pid, &status, WNOHANG) != program.pid) continue;
    program.pid = 0;
    for (Output& output : program.outputs) {
      if (output.file.is_open()) read_some(who, output);
    }
    events_.emplace_back(Ended{who, status});
  }
}

void Programs::signal(std::size_t who, int number) const {
  if (running(who)) ::kill(-programs_[who].pid, number);
}

int exit_code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace lockstep::wan
