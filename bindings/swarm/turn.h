// One thread's wait for its turn. Unlike std::binary_semaphore it does not spin: usually the wait is long, and others
// need the core.
#pragma once

#include <semaphore.h>

#include <cerrno>
#include <chrono>
#include <ctime>

#include "core/base/assert.h"

namespace lockstep::swarm {

class Turn {
 public:
  Turn() { LOCKSTEP_ASSERT(::sem_init(&given_, 0, 0) == 0); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() { ::sem_destroy(&given_); }

  void give() { ::sem_post(&given_); }
  void take() {
    while (::sem_wait(&given_) != 0) LOCKSTEP_ASSERT(errno == EINTR);
  }
  // Returns whether the turn came within about `longest`.
  bool take_within(std::chrono::milliseconds longest) {
    timespec until{};
    ::clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += longest.count() * 1'000'000;
    until.tv_sec += until.tv_nsec / 1'000'000'000;
    until.tv_nsec %= 1'000'000'000;
    return ::sem_timedwait(&given_, &until) == 0;
  }

 private:
  sem_t given_{};
};

}  // namespace lockstep::swarm
