// One io_context, the thread that runs it, and the right to run it (loop_ownership.h): for one machine of core, or for
// all machines of the process that share a reactor. One thread at a time runs handlers: the reactor's own, or a caller
// that waits for a call.
#pragma once

#include <asio/io_context.hpp>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "transport/local_streams.h"
#include "transport/loop_ownership.h"
#include "transport/reactor_thread.h"
#include "transport/spin.h"

namespace lockstep::transport {

class Reactor {
 public:
  using Wake = LoopOwnership::Wake;

  // A machine with its streams. attach() and detach() belong to its constructor and its end.
  class User {
   public:
    virtual ~User() = default;
    // A handler failed for lack of memory, and no handler will run any more. Called by the owner of the loop.
    virtual void on_failure(const Error& why) = 0;
  };

  // `name`: of the thread, at most 15 characters. `spin`: the `longest` of Spin. Throws std::bad_alloc, or
  // std::system_error if there is no thread or descriptor.
  Reactor(const char* name, std::chrono::nanoseconds spin);
  // Invariant: no user is attached.
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // The reactor that machines of this process share; it lives as long as one of them. Throws as the constructor.
  static std::shared_ptr<Reactor> shared();

  asio::io_context& io() { return thread_.io(); }
  // Used by the owner of the loop.
  LocalStreams& local_streams() { return local_streams_; }

  // ---- any thread ----

  void attach(User& user);
  // Waits until all handlers that were posted before have run. Then none of them can reach the user any more.
  void detach(User& user);

  template <typename Handler>
  void post(Wake wake, Handler handler) {
    ownership_.post(wake, std::move(handler));
  }
  // No handler runs any more, because one has failed.
  [[nodiscard]] bool over() const { return over_.load(std::memory_order_acquire); }
  // Runs `question` on the owner of the loop and waits; on this thread if the reactor is over.
  void ask(std::function<void()> question);

  // Runs handlers on this thread until `done`, unless another thread runs them; then it returns at once.
  template <typename Done>
  void run_until(std::chrono::nanoseconds spin, Done done) {
    if (!done() && ownership_.acquire()) run_as_caller(spin, std::move(done));
  }

  // Runs the handlers that are ready on this thread, unless another thread runs them. A call that began there goes on
  // when somebody waits for it (run_until), or after two milliseconds.
  void run_ready();

  // The thread runs the handlers, unless another one does.
  void call_thread() { ownership_.call_thread(); }

  // Calls in flight of all users: while there are some, the thread polls before it sleeps, and keeps the loop.
  void calls_began(std::size_t count) { calls_.fetch_add(count, std::memory_order_relaxed); }
  void calls_ended(std::size_t count) {
    calls_.fetch_sub(count, std::memory_order_relaxed);
    call_ended_.store(true, std::memory_order_relaxed);
  }

 private:
  class Releasing;

  void run();
  void run_as_caller(std::chrono::nanoseconds spin, const std::function<bool()>& done);
  template <typename Turn>
  void guarded(Turn turn);
  void fail(const Error& why);
  [[nodiscard]] bool is_idle() const { return calls_.load(std::memory_order_relaxed) == 0; }

  const std::chrono::nanoseconds spin_;
  ReactorThread thread_;
  LoopOwnership ownership_{thread_.io()};
  LocalStreams local_streams_;
  Crowd crowd_;  // used by the owner of the loop
  std::atomic<std::size_t> calls_{0};
  std::atomic<bool> call_ended_{false};  // since the thread last considered giving up the loop
  std::atomic<bool> over_{false};
  std::mutex mutex_;
  std::vector<User*> users_;  // under mutex_
};

}  // namespace lockstep::transport
