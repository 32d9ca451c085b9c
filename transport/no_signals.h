// Keeps signals away from the library's threads: signals belong to the program's own threads.
#pragma once

#include <pthread.h>

#include <cerrno>
#include <csignal>
#include <ctime>

namespace lockstep::transport {

// While this object lives, new threads block all signals.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

// While this object lives, a write beyond the file size limit (ulimit -f) fails without ending the process: the signal
// is discarded.
class NoSizeSignal {
 public:
  NoSizeSignal() {
    sigset_t pending;
    sigpending(&pending);
    is_ours_ = sigismember(&pending, SIGXFSZ) == 0;
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~NoSizeSignal() {
    const timespec at_once{};
    while (is_ours_ && sigtimedwait(&signal_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSizeSignal(const NoSizeSignal&) = delete;
  NoSizeSignal& operator=(const NoSizeSignal&) = delete;

 private:
  sigset_t signal_{};
  sigset_t before_{};
  bool is_ours_ = true;
};

}  // namespace lockstep::transport
