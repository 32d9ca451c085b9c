// A child process that runs a function, with lines of text both ways. It dies with its parent and is always reaped.
//
// Children are forked without exec: no thread of the parent may be running then, other than those that hold no lock.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/time.h"

namespace lockstep::testing {

// CLOCK_MONOTONIC: the same clock in every process of this machine.
Instant monotonic_now();

// What a child has of its parent. say() may be called from several threads.
class Parent {
 public:
  Parent(int from, int to) : from_(from), to_(to) {}
  void say(std::string_view line);
  // The next line; nothing: the parent has closed its end. Blocks.
  std::optional<std::string> hear();

 private:
  const int from_;
  const int to_;
  std::mutex saying_;
  std::string heard_;
};

class Process {
 public:
  using Main = std::function<int(Parent&)>;
  // Runs `main` in a child; its value is the exit status. The child has none of the parent's files but standard error.
  explicit Process(const Main& main);
  // Kills it, whatever it is doing.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void say(std::string_view line);
  // Lets the child hear the end.
  void hang_up();
  void signal(int number) const;

  // The next line within `timeout`; nothing: none came, or the child is gone.
  std::optional<std::string> hear(Duration timeout);
  // For callers that poll themselves: the file to poll, take in what is there, a line if a whole one came.
  [[nodiscard]] int file() const { return from_; }
  void take_in();
  std::optional<std::string> next_line();
  // The child has closed its end: it has exited, or is about to.
  [[nodiscard]] bool ended() const { return ended_; }

  // Waits for it to exit: what waitpid() says. Nothing: it still runs after `timeout`.
  std::optional<int> exit_status(Duration timeout);

 private:
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
  bool ended_ = false;
  std::optional<int> exit_status_;
  std::string buffer_;
  std::deque<std::string> lines_;
};

// "exit 0", "signal 9".
std::string exit_words(int wait_status);

}  // namespace lockstep::testing
