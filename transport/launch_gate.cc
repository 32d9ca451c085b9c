#include "transport/launch_gate.h"

#include <algorithm>
#include <chrono>

#include "transport/call.h"
#include "transport/clock.h"

namespace lockstep::transport {

LaunchGate::Room::~Room() {
  if (state_ == nullptr) return;
  bool wakes = false;
  {
    const std::lock_guard lock(state_->mutex);
    state_->calls_left += 1;
    state_->bytes_left += bytes_;
    wakes = state_->waiting > 0;
  }
  if (wakes) state_->freed.notify_all();
}

LaunchGate::LaunchGate(std::size_t calls, std::size_t bytes) : state_(std::make_shared<State>()) {
  state_->calls_left = calls;
  state_->bytes_left = bytes;
}

// With the lock.
bool LaunchGate::State::takes(std::size_t bytes) {
  if (calls_left == 0 || bytes > bytes_left) return false;
  calls_left -= 1;
  bytes_left -= bytes;
  return true;
}

LaunchGate::Room LaunchGate::take(std::size_t bytes) {
  const std::lock_guard lock(state_->mutex);
  return state_->takes(bytes) ? Room(state_, bytes) : Room();
}

LaunchGate::Room LaunchGate::wait(std::size_t bytes, std::optional<Duration> timeout, Interrupted interrupted,
                                  const Call& call) {
  if (Waiter* const waiter = call.waiter()) {
    Room room;
    (void)waiter->wait([&] { return static_cast<bool>(room) || static_cast<bool>(room = take(bytes)); }, timeout);
    return room;
  }
  const auto limit = timeout ? std::optional(Clock::now() + to_chrono(*timeout)) : std::nullopt;
  std::unique_lock lock(state_->mutex);
  state_->waiting += 1;
  bool taken = false;
  while (!(taken = state_->takes(bytes))) {
    const auto now = Clock::now();
    if (limit && now >= *limit) break;
    const auto ask = now + kAskEvery;
    const auto wake = interrupted != nullptr ? (limit ? std::min(ask, *limit) : ask) : limit.value_or(now);
    if (interrupted == nullptr && !limit) {
      state_->freed.wait(lock);
      continue;
    }
    if (state_->freed.wait_until(lock, wake) == std::cv_status::no_timeout || interrupted == nullptr) continue;
    lock.unlock();
    const bool stops = interrupted();
    lock.lock();
    if (!stops) continue;
    state_->waiting -= 1;
    throw LaunchInterrupted();
  }
  state_->waiting -= 1;
  return taken ? Room(state_, bytes) : Room();
}

}  // namespace lockstep::transport
