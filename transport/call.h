// One API call: what the engine fills in and any number of threads wait for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/peer/effect.h"
#include "transport/clock.h"
#include "transport/interrupt.h"
#include "transport/memory.h"
#include "transport/work.h"

namespace lockstep::transport {

// Rung once by whichever of several calls ends first; see wait_any().
class Bell {
 public:
  void ring();
  std::mutex mutex;
  std::condition_variable rang;
  bool has_rung = false;
};

// Where a thread waits, and whose time it is, when that is not the machine's: a simulator's.
class Waiter {
 public:
  virtual ~Waiter() = default;
  [[nodiscard]] virtual Instant now() const = 0;
  // Whether the calling thread waits here; another one waits as ever.
  [[nodiscard]] virtual bool is_here() const = 0;
  // Until `done` is true, or so long: the last that `done` said.
  virtual bool wait(const std::function<bool()>& done, std::optional<Duration> timeout) = 0;
};

class Call {
 public:
  // `waiter`: null, or lives until the call is over.
  explicit Call(CallId id, Waiter* waiter = nullptr)
      : id_(id), waiter_(waiter), began_(waiter != nullptr ? waiter->now() : now()) {}
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

  // Exactly once (promise S8).
  void complete(peer::Outcome outcome);

  // False when the call is over already: the bell will not ring.
  bool hang(const std::shared_ptr<Bell>& bell);
  void unhang(const std::shared_ptr<Bell>& bell);

  // Has `ended` called once the call is over: by the thread that ends it, or here if it is over already. Throws std::bad_alloc.
  void notify(Ended ended);
  // Blocks until the call is over and everybody who had asked for it was told.
  void wait_until_told();
  // Null: on condition variables.
  [[nodiscard]] Waiter* waiter() const {
    return waiter_ != nullptr && !over() && waiter_->is_here() ? waiter_ : nullptr;
  }

  // True the first time: one stop is as good as many.
  bool ask_to_stop() { return !stop_asked_.exchange(true, std::memory_order_relaxed); }

  // What the call borrows until it is over. Touched by the thread that launches, then by whoever turns the engine.
  struct Loans {
    std::vector<BufferId> buffers;
    Scratch scratch;
    std::vector<void*> values;  // sync: where those of the state go, 8 bytes each
    bool writes_state = false;  // sync: what lies in its buffers before it has ended is anybody's guess
  } loans;

 private:
  const CallId id_;
  Waiter* const waiter_;
  const Instant began_;
  std::atomic<bool> over_{false};
  std::atomic<bool> stop_asked_{false};
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<std::shared_ptr<Bell>> bells_;
  std::vector<Ended> to_tell_;  // under mutex_
  bool telling_ = false;        // under mutex_: those of to_tell_ are being told
  Progress progress_;           // under mutex_
  peer::Outcome outcome_;       // written before over_ is set, never after
  Instant ended_at_;            // same
};

}  // namespace lockstep::transport
