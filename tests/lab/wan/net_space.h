// A network namespace without a name: it is gone when its last file and its last process are, however they end.
#pragma once

#include <string>
#include <utility>

#include "core/base/result.h"
#include "tests/lab/wan/file.h"

namespace lockstep::wan {

class NetSpace {
 public:
  // Needs the right to make one (root, or CAP_SYS_ADMIN). It has nothing but a loopback device, which is up.
  static Result<NetSpace> make();

  // Runs `body` with this thread inside. Sockets and devices that it opens stay there.
  template <typename F>
  auto within(F&& body) const {
    const Visit visit(*this);
    return std::forward<F>(body)();
  }

  // This thread stays inside; for children. Safe between fork() and exec. False: errno says why.
  [[nodiscard]] bool enter() const;

  // Its file, for programs of this machine that enter it while this object lives.
  [[nodiscard]] std::string path() const;

 private:
  // Asserts that the way back is open: a thread in the wrong network would not know.
  class Visit {
   public:
    explicit Visit(const NetSpace& space);
    ~Visit();
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    File home_;
  };

  explicit NetSpace(File file) : file_(std::move(file)) {}

  File file_;
};

}  // namespace lockstep::wan
