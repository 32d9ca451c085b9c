// A child process that runs a function and exchanges lines of text. It dies with its parent and is always reaped.
//
// Children are forked without exec: at that moment, no other thread of the parent may hold a lock.
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

// The child's connection to its parent. say() may be called from several threads.
class Parent {
 public:
  Parent(int from, int to) : from_(from), to_(to) {}
  void say(std::string_view line);
  // The next line; nothing if the parent has closed its end. Blocks.
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
  // Runs `main` in a child; its value is the exit status. The child inherits only standard error.
  explicit Process(const Main& main);
  // Kills the child, whatever it is doing.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void say(std::string_view line);
  // Closes the child's input.
  void hang_up();
  void signal(int number) const;

  // The next line within `timeout`; nothing if there is none or the child has exited.
  std::optional<std::string> hear(Duration timeout);
  // For callers that poll themselves: the file to poll; reads what is available; returns a complete line, if any.
  [[nodiscard]] int file() const { return from_; }
  void take_in();
  std::optional<std::string> next_line();
  // The child has closed its end: it has exited or is about to.
  [[nodiscard]] bool ended() const { return ended_; }

  // Waits for the child to exit; returns the status of waitpid(). Nothing if it still runs after `timeout`.
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
