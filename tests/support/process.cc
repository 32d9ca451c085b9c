#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include "core/base/assert.h"

namespace lockstep::testing {
namespace {

constexpr int kFromParent = 3;
constexpr int kToParent = 4;

void write_whole(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(file, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return;  // the other side has exited, which the reader notices
    text.remove_prefix(static_cast<std::size_t>(done));
  }
}

std::string as_line(std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line += '\n';
}

int milliseconds_until(Instant deadline) {
  return static_cast<int>(std::max<std::int64_t>(0, (deadline - monotonic_now()).ns + 999'999) / 1'000'000);
}

// In the child: keeps only the standard files and the two pipes, and makes the child die with the parent.
void settle(pid_t parent, int from, int to) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  from = ::fcntl(from, F_DUPFD, 64);  // away from the two target descriptors
  to = ::fcntl(to, F_DUPFD, 64);
  ::dup2(from, kFromParent);
  ::dup2(to, kToParent);
  ::close_range(kToParent + 1, ~0U, 0);
}

}  // namespace

Instant monotonic_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return Instant{now.tv_sec * 1'000'000'000 + now.tv_nsec};
}

void Parent::say(std::string_view line) {
  const std::lock_guard lock(saying_);
  write_whole(to_, as_line(line));
}

std::optional<std::string> Parent::hear() {
  for (;;) {
    if (const auto end = heard_.find('\n'); end != std::string::npos) {
      std::string line = heard_.substr(0, end);
      heard_.erase(0, end + 1);
      return line;
    }
    std::array<char, 4096> bytes{};
    const ssize_t got = ::read(from_, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    heard_.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

Process::Process(const Main& main) {
  std::signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> down{};
  std::array<int, 2> up{};
  LOCKSTEP_ASSERT(::pipe2(down.data(), O_CLOEXEC) == 0 && ::pipe2(up.data(), O_CLOEXEC) == 0);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  LOCKSTEP_ASSERT(pid_ >= 0);
  if (pid_ == 0) {
    settle(parent, down[0], up[1]);
    Parent link(kFromParent, kToParent);
    const auto guarded = [&]() noexcept { return main(link); };  // an exception is a crash that the parent sees
    ::_exit(guarded());
  }
  ::close(down[0]);
  ::close(up[1]);
  to_ = down[1];
  from_ = up[0];
  ::fcntl(from_, F_SETFL, O_NONBLOCK);
}

Process::~Process() {
  signal(SIGKILL);
  if (!exit_status_) ::waitpid(pid_, nullptr, 0);
  hang_up();
  ::close(from_);
}

void Process::say(std::string_view line) { write_whole(to_, as_line(line)); }

void Process::hang_up() {
  if (to_ >= 0) ::close(to_);
  to_ = -1;
}

void Process::signal(int number) const {
  if (!exit_status_) ::kill(pid_, number);
}

void Process::take_in() {
  std::array<char, 65'536> bytes{};
  for (;;) {
    const ssize_t got = ::read(from_, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) ended_ = true;
    if (got <= 0) break;
    buffer_.append(bytes.data(), static_cast<std::size_t>(got));
  }
  std::size_t start = 0;
  for (auto end = buffer_.find('\n'); end != std::string::npos; end = buffer_.find('\n', start)) {
    lines_.push_back(buffer_.substr(start, end - start));
    start = end + 1;
  }
  buffer_.erase(0, start);
}

std::optional<std::string> Process::next_line() {
  if (lines_.empty()) return std::nullopt;
  std::string line = std::move(lines_.front());
  lines_.pop_front();
  return line;
}

std::optional<std::string> Process::hear(Duration timeout) {
  const Instant deadline = monotonic_now() + timeout;
  for (;;) {
    take_in();
    if (auto line = next_line()) return line;
    if (ended_ || monotonic_now() >= deadline) return std::nullopt;
    pollfd item{from_, POLLIN, 0};
    ::poll(&item, 1, milliseconds_until(deadline));
  }
}

std::optional<int> Process::exit_status(Duration timeout) {
  if (exit_status_) return exit_status_;
  const int watch = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  if (watch >= 0) {
    pollfd item{watch, POLLIN, 0};
    ::poll(&item, 1, milliseconds_until(monotonic_now() + timeout));
    ::close(watch);
  }
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == pid_) exit_status_ = status;
  return exit_status_;
}

std::string exit_words(int wait_status) {
  if (WIFSIGNALED(wait_status)) return "signal " + std::to_string(WTERMSIG(wait_status));
  return "exit " + std::to_string(WEXITSTATUS(wait_status));
}

}  // namespace lockstep::testing
