#include "transport/job_pool.h"

#include <sys/resource.h>

#include <algorithm>
#include <asio/post.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "transport/driver_mutant.h"
#include "transport/no_signals.h"

namespace lockstep::transport {

namespace {

constexpr std::size_t kMostThreads = 7;  // together with the engine's thread, they saturate the memory bandwidth
constexpr std::size_t kAtHand = 2;       // jobs of each thread: the running one and the next one

// Lowers the priority of helper threads, so that they use only idle cores when several engines share a machine.
// Otherwise three threads would share one core while the fourth has another for the duration of a digest. The value is
// small enough that a job in progress still ends soon.
constexpr int kNiceness = 10;

void step_back() {
  thread_local bool behind = false;
  if (!std::exchange(behind, true)) ::setpriority(PRIO_PROCESS, 0, kNiceness);  // on Linux, affects this thread only
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
    first = done_.empty() != planted(DriverMutant::kWakesForAll);
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
