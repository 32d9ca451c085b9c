// A thread for one io_context, that takes no signals: those are for the program's own threads.
#pragma once

#include <pthread.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <csignal>
#include <functional>
#include <thread>
#include <utility>

namespace lockstep::transport {

class ReactorThread {
 public:
  // One thread at a time runs it, others only post.
  ReactorThread() : io_(1), guard_(asio::make_work_guard(io_)) {}
  ReactorThread(const ReactorThread&) = delete;
  ReactorThread& operator=(const ReactorThread&) = delete;
  ~ReactorThread() { join(); }

  asio::io_context& io() { return io_; }

  // Throws std::system_error when there is no thread to be had. `name`: at most 15 characters.
  void start(const char* name, std::function<void(asio::io_context&)> run) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread, and by the resolver's
    try {
      thread_ = std::thread([this, name, run = std::move(run)] {
        pthread_setname_np(pthread_self(), name);
        run(io_);
      });
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
