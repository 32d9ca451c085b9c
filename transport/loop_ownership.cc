#include "transport/loop_ownership.h"

#include "core/base/assert.h"

namespace lockstep::transport {
namespace {

// The thread takes the loop back after this long without an owner: longer than a program needs between two small
// collectives, shorter than any deadline of a peer without a call in flight.
constexpr std::chrono::milliseconds kUnownedFor(2);

}  // namespace

bool LoopOwnership::acquire() {
  const std::lock_guard lock(mutex_);
  if (owner_ != Owner::kNobody || thread_needed_ || closed_) return false;
  owner_ = Owner::kCaller;
  ++acquisitions_;
  return true;
}

void LoopOwnership::release(bool needed) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_ASSERT(owner_ == Owner::kCaller);
  owner_ = Owner::kNobody;
  if (needed || posted_ > 0 || closed_) wake_thread();
}

bool LoopOwnership::yield() {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_ASSERT(owner_ == Owner::kThread);
  if (posted_ > 0 || closed_) return false;
  owner_ = Owner::kNobody;
  return true;
}

bool LoopOwnership::reclaim() {
  // A caller that closes the loop notifies the thread before it releases the loop.
  const auto called = [this] { return thread_needed_ && owner_ == Owner::kNobody; };
  std::unique_lock lock(mutex_);
  for (std::uint64_t seen = acquisitions_; !closed_ && owner_ != Owner::kThread; seen = acquisitions_) {
    if (changed_.wait_for(lock, kUnownedFor, called)) {
      thread_needed_ = false;
      owner_ = Owner::kThread;
    } else if (owner_ == Owner::kNobody && acquisitions_ == seen) {
      owner_ = Owner::kThread;
    }
  }
  if (closed_) changed_.wait(lock, [this] { return owner_ != Owner::kCaller; });
  return !closed_;
}

void LoopOwnership::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  wake_thread();
}

}  // namespace lockstep::transport
