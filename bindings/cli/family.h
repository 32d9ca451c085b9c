// Child processes that cannot outlive this process, and the lines that they print. Waits for lines, never sleeps.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lockstep::cli {

// Not thread-safe: used by the thread that constructed it, which must live as long as the children.
class Family {
 public:
  using Clock = std::chrono::steady_clock;

  struct Line {
    std::size_t child;
    std::string text;
  };
  struct Ended {  // comes after its last line
    std::size_t child;
    int status;  // from waitpid()
  };
  struct Interrupted {
    int signal;
  };
  struct TimedOut {};
  using Event = std::variant<Line, Ended, Interrupted, TimedOut>;

  // From here on SIGINT and SIGTERM are events. Construct it before any thread starts, so that all threads block the
  // signals.
  Family();
  ~Family();  // kills and reaps the remaining children
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  // Runs this program with these arguments; the child shares our stderr. Children are numbered from 0. Throws Failure.
  std::size_t start(const std::vector<std::string>& arguments);

  // Blocks until the next event, or until `deadline`.
  Event next(Clock::time_point deadline = Clock::time_point::max());

  // Writes one line to the child's stdin. Has no effect if the child has exited.
  void tell(std::size_t child, std::string_view line);
  void signal(std::size_t child, int number);
  [[nodiscard]] bool running(std::size_t child) const { return children_[child].pid > 0; }
  [[nodiscard]] pid_t pid(std::size_t child) const { return children_[child].pid; }

 private:
  struct Child {
    pid_t pid = 0;  // 0: exited
    int in = -1;
    int out = -1;
    std::string unfinished;  // a line whose end has not been read yet
  };

  void read_some(std::size_t index);
  void reap(std::size_t index);

  int signals_ = -1;
  std::vector<Child> children_;
  std::deque<Event> events_;
};

// "exited with code 1", "was killed by signal 9".
std::string end_words(int status);

}  // namespace lockstep::cli
