// A handle on one API call in flight. Cheap to copy; the last copy frees it. Outlives its communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/peer/effect.h"
#include "transport/interrupt.h"

namespace lockstep::transport {

using peer::Outcome;

class Call;  // call.h; the engine's side of the handle

// Bytes that a sync has got, of those in which the state differs. 0 of 0: it does not know yet, or it is no sync.
struct Progress {
  std::uint64_t bytes = 0;
  std::uint64_t of = 0;
};

// What to call when a call is over. It must be quick, must not block, and must not throw.
struct Ended {
  void (*function)(void* user);
  void* user;
};

// Thread-safe: any number of threads may wait for one call.
class Work {
 public:
  Work() = default;  // no call; only to be assigned to
  explicit Work(std::shared_ptr<Call> call) : call_(std::move(call)) {}

  [[nodiscard]] explicit operator bool() const { return call_ != nullptr; }
  // Unique within its communicator; 0 without a call.
  [[nodiscard]] CallId id() const;
  // Whether the call is over. Never blocks.
  [[nodiscard]] bool test() const;
  // Blocks until the call is over (true) or `timeout` has passed (false; the call goes on). Without a time-out: until it is
  // over, which promise L4 says it will be.
  bool wait(std::optional<Duration> timeout = std::nullopt) const;
  // The same, unless the waiting thread is interrupted before.
  Waited wait(std::optional<Duration> timeout, Interrupted interrupted) const;
  // Has `ended` called exactly once, when the call is over: on the thread that ends it, or here if it is over already. May be
  // asked for several times. Throws std::bad_alloc, and `ended` is not called then.
  void notify(Ended ended) const;
  // Blocks until the call is over and all of those were called.
  void wait_until_told() const;
  // How far it is. Never blocks.
  [[nodiscard]] Progress progress() const;
  // How it ended. Only once test() or wait() said true; valid as long as a handle lives.
  [[nodiscard]] const Outcome& outcome() const;
  // From the call to its end. Only once test() or wait() said true.
  [[nodiscard]] Duration elapsed() const;

 private:
  friend class Communicator;
  friend Waited wait_any(std::span<const Work> works, std::optional<Duration> timeout, Interrupted interrupted,
                         std::size_t& first);
  std::shared_ptr<Call> call_;
};

// Blocks until one of `works` is over: `first` is its index then, the lowest if there are several. kTimedOut at once if `works` is
// empty.
Waited wait_any(std::span<const Work> works, std::optional<Duration> timeout, Interrupted interrupted,
                std::size_t& first);

// The same; nothing: `timeout` has passed.
inline std::optional<std::size_t> wait_any(std::span<const Work> works,
                                           std::optional<Duration> timeout = std::nullopt) {
  std::size_t first = 0;
  if (wait_any(works, timeout, nullptr, first) != Waited::kOver) return std::nullopt;
  return first;
}

}  // namespace lockstep::transport
