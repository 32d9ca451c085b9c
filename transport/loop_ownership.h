// Ownership of an engine's loop: the engine's thread runs the loop, or a caller that would otherwise sleep until the
// thread has finished its call. Handing a call to another thread and back costs two wake-ups, more than all the work of
// a small collective.
//
// The thread releases the loop when no call is in flight. A caller that is about to wait takes the loop, runs it until
// its call is over, and releases it. When no caller has taken the loop for a moment, the thread takes it back.
#pragma once

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace lockstep::transport {

class LoopOwnership {
 public:
  // Which thread a post wakes up.
  enum class Wake : std::uint8_t {
    kOwner,  // the owner, or the thread if there is no owner
    kNone,   // none: the posting thread takes the loop at once
  };

  explicit LoopOwnership(asio::io_context& io) : io_(io) {}
  LoopOwnership(const LoopOwnership&) = delete;
  LoopOwnership& operator=(const LoopOwnership&) = delete;
  ~LoopOwnership() = default;

  // ---- any thread ----

  // `handler` runs on the owner. A posted handler keeps the thread from releasing the loop.
  template <typename Handler>
  void post(Wake wake, Handler handler) {
    const std::lock_guard lock(mutex_);
    ++posted_;
    asio::post(io_, [this, handler = std::move(handler)] {
      {
        const std::lock_guard run(mutex_);
        --posted_;
      }
      handler();
    });
    if (wake == Wake::kOwner && owner_ == Owner::kNobody) wake_thread();
  }
  // The thread takes the loop if nobody owns it.
  void call_thread() {
    const std::lock_guard lock(mutex_);
    if (owner_ == Owner::kNobody) wake_thread();
  }

  // ---- a caller ----

  // Returns true if the caller now owns the loop until it releases it, false if another thread owns it.
  [[nodiscard]] bool acquire();
  // `needed`: there is new work, so the thread must not wait for the next caller.
  void release(bool needed);

  // ---- the thread; owns the loop at the beginning ----

  // Releases the loop. Returns false if a handler is posted; then the thread keeps the loop.
  [[nodiscard]] bool yield();
  // Blocks until the thread owns the loop (true), or until the loop is closed and no caller owns it (false).
  [[nodiscard]] bool reclaim();

  // ---- the owner ----

  // No caller can take the loop any more.
  void close();

 private:
  enum class Owner : std::uint8_t { kThread, kCaller, kNobody };

  void wake_thread() {
    thread_needed_ = true;
    changed_.notify_one();
  }

  asio::io_context& io_;
  std::mutex mutex_;
  std::condition_variable changed_;  // wakes the thread
  Owner owner_ = Owner::kThread;
  std::uint64_t acquisitions_ = 0;  // number of times that a caller took the loop
  std::uint32_t posted_ = 0;        // handlers that were posted and have not run
  bool thread_needed_ = false;
  bool closed_ = false;
};

}  // namespace lockstep::transport
