// One API call. The engine completes it; any number of threads wait for it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/peer/effect.h"
#include "transport/clock.h"
#include "transport/interrupt.h"
#include "transport/launch_gate.h"
#include "transport/memory.h"
#include "transport/work.h"

namespace lockstep::transport {

class Reactor;

// Rung once, by the first of several calls to end; see wait_any().
class Bell {
 public:
  void ring();
  std::mutex mutex;
  std::condition_variable rang;
  bool has_rung = false;
};

// A waiter replaces the condition variable of a call, for threads that live in simulated time.
class Waiter {
 public:
  virtual ~Waiter() = default;
  [[nodiscard]] virtual Instant now() const = 0;
  // Whether the calling thread has to use this waiter. Any other thread waits on the condition variable.
  [[nodiscard]] virtual bool is_here() const = 0;
  // Waits until `done` is true, or until `timeout` has passed. Returns the last result of `done`.
  virtual bool wait(const std::function<bool()>& done, std::optional<Duration> timeout) = 0;
};

class Call {
 public:
  // The engine, which a waiting thread runs meanwhile, unless another thread runs it. A default Runner has no engine.
  struct Runner {
    std::weak_ptr<Reactor> reactor;
    std::chrono::nanoseconds spin{0};  // the `longest` of Spin
  };

  // `waiter`: null, or outlives the call.
  explicit Call(CallId id, Waiter* waiter = nullptr)
      : id_(id), waiter_(waiter), began_(waiter != nullptr ? waiter->now() : now()) {}
  Call(CallId id, Runner runner) : id_(id), waiter_(nullptr), runner_(std::move(runner)), began_(now()) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() = default;

  [[nodiscard]] CallId id() const { return id_; }
  [[nodiscard]] bool over() const { return over_.load(std::memory_order_acquire); }
  Waited wait(std::optional<Duration> timeout, Interrupted interrupted = nullptr);
  [[nodiscard]] const peer::Outcome& outcome() const;
  [[nodiscard]] Duration elapsed() const;

  [[nodiscard]] Progress progress() const;
  void set_progress(Progress progress);

  // Called exactly once (promise S8).
  void complete(peer::Outcome outcome);

  // Returns false if the call is over already: then the bell will not ring.
  bool hang(const std::shared_ptr<Bell>& bell);
  void unhang(const std::shared_ptr<Bell>& bell);

  // Calls `ended` once the call is over: on the thread that ends the call, or here if it is over already. Throws
  // std::bad_alloc.
  void notify(Ended ended);
  // Blocks until the call is over and all notifications have been delivered.
  void wait_until_told();
  // Null: waits on a condition variable.
  [[nodiscard]] Waiter* waiter() const {
    return waiter_ != nullptr && !over() && waiter_->is_here() ? waiter_ : nullptr;
  }

  // The engine's thread carries the call on; see Driver::Then::kWaitLater.
  void go_on() const;
  // The beginning of a wait: runs the engine on this thread for some milliseconds at most, until `done`, if the wait is
  // long enough. Returns false if the wait has no length: a thread that sleeps for no time at all sleeps for 50 us.
  [[nodiscard]] bool run_engine(const std::function<bool()>& done, std::optional<Duration> timeout) const;

  // Returns true the first time only: one stop is enough.
  bool ask_to_stop() { return !stop_asked_.exchange(true, std::memory_order_relaxed); }

  // Memory that the call borrows until it is over. Used by the launching thread, then by the thread that runs the
  // engine.
  struct Loans {
    std::vector<BufferId> buffers;
    Scratch scratch;
    // Results of tensors that travel as one, for the tensors of the caller; copied once the call has succeeded.
    struct Joined {
      const std::byte* from = nullptr;
      void* into = nullptr;
      std::size_t bytes = 0;
    };
    std::vector<Joined> joined;
    LaunchGate::Room room;      // collectives: among the calls in flight
    std::vector<void*> values;  // sync: destinations of the state's values, 8 bytes each
    bool writes_state = false;  // sync: the contents of the buffers are undefined until the call has ended
  } loans;

  // The streams that tensors were sent on while the call ran. Used by the thread that runs the engine; constant once
  // the call is over.
  struct Sending {
    std::uint64_t writes_before = 0;  // CongestionUse::writes() when the call began
    std::string congestion_control;   // CongestionUse::used_since() when the call ended
    std::uint32_t streams = 0;        // StreamSet::used_since() when the call ended
  } sending;

 private:
  const CallId id_;
  Waiter* const waiter_;
  const Runner runner_;
  const Instant began_;
  std::atomic<bool> over_{false};
  std::atomic<bool> stop_asked_{false};
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<std::shared_ptr<Bell>> bells_;
  std::vector<Ended> to_tell_;  // under mutex_
  bool telling_ = false;        // under mutex_: notifications of to_tell_ are being delivered
  Progress progress_;           // under mutex_
  peer::Outcome outcome_;       // written before over_ is set, and never after
  Instant ended_at_;            // same as outcome_
};

}  // namespace lockstep::transport
