// Who turns an engine: its thread, or a caller that would only sleep until the thread is done. To hand a call over to another
// thread and back costs two wake-ups, which is more than all the work of a small collective.
//
// The thread steps aside when no call is in flight. A caller that is about to wait sits down in its place, turns the engine until
// its call is over, and leaves. When nobody has sat there for a moment, the thread comes back by itself.
#pragma once

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace lockstep::transport {

class Seat {
 public:
  // Who is on its way to run what was posted.
  enum class Wake : std::uint8_t {
    kWhoeverSits,  // or the thread, when nobody does
    kNobody,       // the poster itself comes: it waits at once
  };

  explicit Seat(asio::io_context& io) : io_(io) {}
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;
  ~Seat() = default;

  // ---- any thread ----

  // `handler` runs on whoever sits. What was posted keeps the thread from stepping aside.
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
    if (wake == Wake::kWhoeverSits && sitter_ == Sitter::kNobody) call_thread();
  }

  // ---- a caller ----

  // True: the caller sits, and turns the engine until it leaves. False: somebody else does.
  [[nodiscard]] bool sit_down();
  // `needed`: more is to be done than was, so the thread must not wait for the next caller.
  void leave(bool needed);

  // ---- the thread; it sits at the beginning ----

  // Whether it has stepped aside: not when something is posted.
  [[nodiscard]] bool step_aside();
  // Blocks until the seat is the thread's: true; or closed, and no caller sits there any more: false.
  [[nodiscard]] bool come_back();

  // ---- whoever sits ----

  // Nobody sits down any more.
  void close();

 private:
  enum class Sitter : std::uint8_t { kThread, kCaller, kNobody };

  void call_thread() {
    thread_needed_ = true;
    changed_.notify_one();
  }

  asio::io_context& io_;
  std::mutex mutex_;
  std::condition_variable changed_;  // for the thread
  Sitter sitter_ = Sitter::kThread;
  std::uint64_t sittings_ = 0;  // of callers
  std::uint32_t posted_ = 0;    // and not run yet
  bool thread_needed_ = false;
  bool closed_ = false;
};

}  // namespace lockstep::transport
