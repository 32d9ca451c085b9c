#include "transport/forks.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/detail/epoll_reactor.hpp>
#include <asio/io_context.hpp>
#include <atomic>
#include <bit>
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>

namespace lockstep::transport {
namespace {

// Linux's default limit for one process (fs.nr_open). Pages that are never written take no physical memory.
constexpr std::size_t kMostDescriptors = 1U << 20U;
constexpr std::size_t kBits = 64;

std::array<std::uint64_t, kMostDescriptors / kBits> owned{};  // one bit per descriptor; under `mutex`
std::size_t words_used = 0;                                   // under `mutex`: all further words are 0
std::atomic<std::uint64_t> number{0};

// Constructed anew in a child that was forked while a thread held the lock.
std::mutex mutex;

// A signal handler that forks on the thread that holds the lock must not hang.
constexpr int kMostTries = 100'000;
thread_local bool held_by_fork = false;

void before_fork() {
  for (int i = 0; i < kMostTries && !held_by_fork; ++i) {
    held_by_fork = mutex.try_lock();
    if (!held_by_fork) sched_yield();
  }
}

void in_parent() {
  if (std::exchange(held_by_fork, false)) mutex.unlock();
}

// Does only what a signal handler may do, because other threads may have held any lock.
void in_child() {
  number.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t word = 0; word < words_used; ++word) {
    for (std::uint64_t left = std::exchange(owned[word], 0); left != 0; left &= left - 1) {
      ::close(static_cast<int>(word * kBits) + std::countr_zero(left));
    }
  }
  words_used = 0;
  if (std::exchange(held_by_fork, false)) {
    mutex.unlock();
  } else {
    new (&mutex) std::mutex;
  }
}

void mark(int descriptor, bool is_owned) {
  const auto place = static_cast<std::size_t>(descriptor);
  if (descriptor < 0 || place >= kMostDescriptors) return;
  const std::uint64_t bit = std::uint64_t{1} << place % kBits;
  std::uint64_t& word = owned[place / kBits];
  word = is_owned ? word | bit : word & ~bit;
  words_used = std::max(words_used, place / kBits + 1);
}

// These members of asio are private. An explicit instantiation may name private members (C++20, [temp.spec.general]).
using EpollReactor = asio::detail::epoll_reactor;
template <auto kEpoll, auto kTimer, auto kInterrupter>
struct Inside {
  friend std::array<int, 3> descriptors_of(EpollReactor& reactor) {
    return {reactor.*kEpoll, reactor.*kTimer, (reactor.*kInterrupter).read_descriptor()};
  }
};
std::array<int, 3> descriptors_of(EpollReactor& reactor);
template struct Inside<&EpollReactor::epoll_fd_, &EpollReactor::timer_fd_, &EpollReactor::interrupter_>;

void mark(asio::io_context& io, bool are_owned) {
  const ForkLock lock;
  for (const int descriptor : descriptors_of(asio::use_service<EpollReactor>(io))) mark(descriptor, are_owned);
}

}  // namespace

std::uint64_t process_number() { return number.load(std::memory_order_relaxed); }

void watch_forks() {
  static const int kFailed = pthread_atfork(before_fork, in_parent, in_child);
  if (kFailed != 0) throw std::bad_alloc();
}

ForkLock::ForkLock() { mutex.lock(); }
ForkLock::~ForkLock() { mutex.unlock(); }

void own(int descriptor) { mark(descriptor, true); }
void disown(int descriptor) { mark(descriptor, false); }

void own(asio::io_context& io) { mark(io, true); }
void disown(asio::io_context& io) { mark(io, false); }

}  // namespace lockstep::transport
