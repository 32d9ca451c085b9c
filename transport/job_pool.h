// Threads for jobs that take long: digests of a shared state. There are as many as the machine has cores to spare beside the one
// that turns the engine; a job that finds them busy is the engine's own, so that it computes, too.
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
  // `answers`: called on a thread of the pool, when there are some and nobody was told of them yet. The threads begin with the
  // first job.
  explicit JobPool(std::function<void()> answers);
  ~JobPool() { join(); }
  JobPool(const JobPool&) = delete;
  JobPool& operator=(const JobPool&) = delete;

  // Whoever turns the engine. False: all are busy and have another one at hand, or there is no thread to be had.
  bool give(JobToken token, std::function<JobResult()> job);
  // What has been answered since the last time.
  [[nodiscard]] std::vector<peer::JobDone> take();
  // What was given is finished; nothing is taken any more.
  void join();

 private:
  void finish(peer::JobDone done);

  const std::function<void()> answers_;
  const std::size_t threads_;
  bool closed_ = false;
  std::size_t under_way_ = 0;  // given, and not taken yet
  std::optional<asio::thread_pool> pool_;
  std::mutex mutex_;
  std::vector<peer::JobDone> done_;  // under mutex_
};

}  // namespace lockstep::transport
