#include "transport/job_pool.h"

#include <algorithm>
#include <asio/post.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "transport/no_signals.h"

namespace lockstep::transport {

namespace {

constexpr std::size_t kMostThreads = 7;  // with the engine's own, they read faster than any memory
constexpr std::size_t kAtHand = 2;       // jobs for each: the one that runs, and the next

}  // namespace

JobPool::JobPool(std::function<void()> answers)
    : answers_(std::move(answers)),
      threads_(std::min<std::size_t>(std::max(1U, std::thread::hardware_concurrency()) - 1, kMostThreads)) {}

bool JobPool::give(JobToken token, std::function<JobResult()> job) {
  if (closed_ || under_way_ >= threads_ * kAtHand) return false;
  if (!pool_) {
    const NoSignals none;
    try {
      pool_.emplace(threads_);
    } catch (const std::system_error&) {
      closed_ = true;
      return false;
    }
  }
  ++under_way_;
  asio::post(*pool_, [this, token, job = std::move(job)] { finish({token, job()}); });
  return true;
}

void JobPool::finish(peer::JobDone done) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = done_.empty();
    done_.push_back(done);
  }
  if (first) answers_();
}

std::vector<peer::JobDone> JobPool::take() {
  if (under_way_ == 0) return {};
  const std::lock_guard lock(mutex_);
  under_way_ -= done_.size();
  return std::exchange(done_, {});
}

void JobPool::join() {
  closed_ = true;
  if (pool_) pool_->join();
}

}  // namespace lockstep::transport
