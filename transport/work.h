// A handle of one API call in flight. Cheap to copy; destroying the last copy frees it. May outlive its communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/peer/effect.h"
#include "transport/interrupt.h"

namespace lockstep::transport {

using peer::Outcome;

class Call;  // call.h; the engine's side of the handle

// Progress of a sync: the bytes received, and the bytes that differ. 0 of 0: not known yet, or not a sync.
struct Progress {
  std::uint64_t bytes = 0;
  std::uint64_t of = 0;
};

// A callback for the end of a call. It must be quick, must not block, and must not throw.
struct Ended {
  void (*function)(void* user);
  void* user;
};

// Thread-safe: any number of threads may wait for one call.
class Work {
 public:
  Work() = default;  // without a call; can only be assigned to
  explicit Work(std::shared_ptr<Call> call) : call_(std::move(call)) {}

  [[nodiscard]] explicit operator bool() const { return call_ != nullptr; }
  // Unique within its communicator; 0 without a call.
  [[nodiscard]] CallId id() const;
  // Whether the call is over. Never blocks.
  [[nodiscard]] bool test() const;
  // Blocks until the call is over (returns true) or `timeout` has passed (returns false; the call continues). Without a
  // timeout, blocks until the call is over; promise L4 guarantees its end.
  bool wait(std::optional<Duration> timeout = std::nullopt) const;
  // The same, but may be interrupted.
  Waited wait(std::optional<Duration> timeout, Interrupted interrupted) const;
  // Calls `ended` exactly once, when the call is over: on the thread that ends it, or here if it is over already. May
  // be called several times. If it throws std::bad_alloc, `ended` is not called.
  void notify(Ended ended) const;
  // Nobody will wait for this call soon: it goes on at once.
  void go_on() const;
  // Blocks until the call is over and all callbacks have returned.
  void wait_until_told() const;
  // The progress so far. Never blocks.
  [[nodiscard]] Progress progress() const;
  // How the call ended. Allowed only after test() or wait() has returned true; valid as long as a handle lives.
  [[nodiscard]] const Outcome& outcome() const;
  // The time from the call to its end. Allowed only after test() or wait() has returned true.
  [[nodiscard]] Duration elapsed() const;
  // The congestion controls of the streams that this peer sent tensors on while the call ran, in alphabetical order:
  // "bbr, cubic"; empty: it sent none, or not over TCP. Allowed, and valid, as outcome().
  [[nodiscard]] const std::string& congestion_control() const;
  // The number of these streams that are still open when the call ends. Allowed as outcome().
  [[nodiscard]] std::uint32_t streams() const;

 private:
  friend class Communicator;
  friend Waited wait_any(std::span<const Work> works, std::optional<Duration> timeout, Interrupted interrupted,
                         std::size_t& first);
  std::shared_ptr<Call> call_;
};

// Blocks until one of `works` is over; `first` is then its index, the lowest one of several. Returns kTimedOut at once
// if `works` is empty.
Waited wait_any(std::span<const Work> works, std::optional<Duration> timeout, Interrupted interrupted,
                std::size_t& first);

// The same; returns nothing if `timeout` has passed.
inline std::optional<std::size_t> wait_any(std::span<const Work> works,
                                           std::optional<Duration> timeout = std::nullopt) {
  std::size_t first = 0;
  if (wait_any(works, timeout, nullptr, first) != Waited::kOver) return std::nullopt;
  return first;
}

}  // namespace lockstep::transport
