// A thread for one io_context. It blocks all signals, which belong to the program's own threads.
#pragma once

#include <pthread.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <functional>
#include <thread>
#include <utility>

#include "transport/forks.h"
#include "transport/no_signals.h"

namespace lockstep::transport {

class ReactorThread {
 public:
  // Only one thread at a time runs the io_context; other threads only post to it.
  ReactorThread() : io_(1), guard_(asio::make_work_guard(io_)) {
    watch_forks();
    own(io_);
  }
  ReactorThread(const ReactorThread&) = delete;
  ReactorThread& operator=(const ReactorThread&) = delete;
  ~ReactorThread() {
    join();
    disown(io_);
  }

  asio::io_context& io() { return io_; }

  // Throws std::system_error if no thread can be started. `name`: at most 15 characters.
  void start(const char* name, std::function<void(asio::io_context&)> run) {
    const NoSignals none;  // the resolver's thread inherits the signal mask, too
    thread_ = std::thread([this, name, run = std::move(run)] {
      pthread_setname_np(pthread_self(), name);
      run(io_);
    });
  }
  [[nodiscard]] bool running() const { return thread_.joinable(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  std::thread thread_;
};

}  // namespace lockstep::transport
