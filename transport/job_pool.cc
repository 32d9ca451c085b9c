#include "transport/job_pool.h"

#include <sys/resource.h>

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

// Where other peers share the cores, each engine keeps one: its helpers take what is left. Else three threads share one core and
// the fourth has the other, for as long as a digest takes. Not so much that a job which was begun would not end soon.
constexpr int kNiceness = 10;

void step_back() {
  thread_local bool behind = false;
  if (!std::exchange(behind, true)) ::setpriority(PRIO_PROCESS, 0, kNiceness);  // of this thread, on Linux
}

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
  asio::post(*pool_, [this, token, job = std::move(job)] {
    step_back();
    finish({token, job()});
  });
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
