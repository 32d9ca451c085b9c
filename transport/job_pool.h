// Threads for long jobs: digests of a shared state. The pool has as many threads as the machine has cores beside the
// thread that runs the engine. The engine runs a job itself when all threads are busy, so it computes, too.
#pragma once

#include <asio/thread_pool.hpp>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "core/kernels/job.h"
#include "core/peer/input.h"

namespace lockstep::transport {

class JobPool {
 public:
  // `answers`: called on a thread of the pool when the first unreported answer is available. The threads start with the
  // first job.
  explicit JobPool(std::function<void()> answers);
  ~JobPool() { join(); }
  JobPool(const JobPool&) = delete;
  JobPool& operator=(const JobPool&) = delete;

  // Called by the owner of the loop. Returns false if all threads are busy and have a next job, or if no thread can be
  // started.
  bool give(JobToken token, std::function<JobResult()> job);
  // The answers since the last call.
  [[nodiscard]] std::vector<peer::JobDone> take();
  // Finishes all accepted jobs; accepts no more.
  void join();

 private:
  void finish(peer::JobDone done);

  const std::function<void()> answers_;
  const std::size_t threads_;
  bool closed_ = false;
  std::size_t under_way_ = 0;  // accepted and not taken yet
  std::optional<asio::thread_pool> pool_;
  std::mutex mutex_;
  std::vector<peer::JobDone> done_;  // under mutex_
};

}  // namespace lockstep::transport
