// Programs in namespaces, with what they print as lines. They live in a process namespace of their own, which ends with
// this object and with this process, however it ends: whatever they have started ends with it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "tests/lab/wan/file.h"
#include "tests/lab/wan/net_space.h"

namespace lockstep::wan {

class Programs {
 public:
  struct Said {
    std::size_t who;
    bool error;  // on stderr
    std::string line;
  };
  struct Ended {
    std::size_t who;
    int status;  // as waitpid() gives it
  };
  struct Interrupted {
    int signal;
  };
  struct TimedOut {};
  using Event = std::variant<Said, Ended, Interrupted, TimedOut>;

  // From here on SIGINT, SIGTERM and SIGCHLD are events: to be made before any thread.
  static Result<std::unique_ptr<Programs>> make();
  ~Programs();
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;

  // Runs `words` in `space`, with nothing on stdin, in a process group of its own. Numbered from 0. That there is no
  // such program is an exit with 127 and a line on stderr.
  Result<std::size_t> start(const NetSpace& space, const std::vector<std::string>& words);
  Event next(std::optional<Duration> timeout = std::nullopt);
  // To its group.
  void signal(std::size_t who, int number) const;
  [[nodiscard]] bool running(std::size_t who) const { return programs_[who].pid > 0; }

 private:
  struct Output {
    File file;
    bool error;
    std::string unfinished;
  };
  struct Program {
    pid_t pid = 0;  // 0: ended
    std::vector<Output> outputs;
  };

  Programs() = default;
  void read_some(std::size_t who, Output& output);
  void reap();

  File signals_;
  File lifeline_;  // the first process of the namespace ends when this is closed
  pid_t first_ = 0;
  // The namespaces of processes that are forked: ours, and theirs, which is entered for the fork alone, as a thread
  // cannot be made in between.
  File home_;
  File inside_;
  std::vector<Program> programs_;
  std::deque<Event> events_;
};

// The exit code of a shell that waited for it: that of the program, or 128 and the number of the signal.
int exit_code_of(int status);

}  // namespace lockstep::wan
