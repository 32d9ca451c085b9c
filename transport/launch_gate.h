// Room for the collective calls of one communicator: as many as the queue of its peer takes (core/peer/launch_queue.h).
// A thread that launches a call and finds no room waits until a call ends.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/base/time.h"
#include "core/wire/limits.h"
#include "transport/interrupt.h"

namespace lockstep::transport {

class Call;

// Thrown when the program ends a wait for room. The call was not launched.
class LaunchInterrupted final : public std::runtime_error {
 public:
  LaunchInterrupted() : std::runtime_error("interrupted while the call waited for room; it was not launched") {}
};

class LaunchGate {
 private:
  struct State;

 public:
  // The room of one call; returned when it is destroyed. May outlive the gate.
  class Room {
   public:
    Room() = default;
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
    Room(Room&& other) noexcept { *this = std::move(other); }
    Room& operator=(Room&& other) noexcept {
      std::swap(state_, other.state_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Room();
    explicit operator bool() const { return state_ != nullptr; }

   private:
    friend class LaunchGate;
    Room(std::shared_ptr<State> state, std::size_t bytes) : state_(std::move(state)), bytes_(bytes) {}
    std::shared_ptr<State> state_;
    std::size_t bytes_ = 0;
  };

  explicit LaunchGate(std::size_t calls = kMaxQueuedCalls, std::size_t bytes = kMaxQueuedCallBytes);
  // For a call whose description takes so many bytes (peer::queued_bytes()). No room: an empty one.
  [[nodiscard]] Room take(std::size_t bytes);
  // The same; waits. `call`: the new call, for threads in simulated time. No room within `timeout` (nothing: no limit):
  // an empty one. Throws LaunchInterrupted.
  [[nodiscard]] Room wait(std::size_t bytes, std::optional<Duration> timeout, Interrupted interrupted,
                          const Call& call);

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable freed;
    std::size_t calls_left = 0;
    std::size_t bytes_left = 0;
    std::size_t waiting = 0;  // threads
    [[nodiscard]] bool takes(std::size_t bytes);
  };
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::transport
