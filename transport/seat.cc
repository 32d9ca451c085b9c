#include "transport/seat.h"

#include "core/base/assert.h"

namespace lockstep::transport {
namespace {

// The thread takes the loop back after this long without an owner: longer than a program needs between two small
// collectives, shorter than any deadline of a peer without a call in flight.
constexpr std::chrono::milliseconds kEmptyFor(2);

}  // namespace

bool Seat::sit_down() {
  const std::lock_guard lock(mutex_);
  if (sitter_ != Sitter::kNobody || thread_needed_ || closed_) return false;
  sitter_ = Sitter::kCaller;
  ++sittings_;
  return true;
}

void Seat::leave(bool needed) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_ASSERT(sitter_ == Sitter::kCaller);
  sitter_ = Sitter::kNobody;
  if (needed || posted_ > 0 || closed_) call_thread();
}

bool Seat::step_aside() {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_ASSERT(sitter_ == Sitter::kThread);
  if (posted_ > 0 || closed_) return false;
  sitter_ = Sitter::kNobody;
  return true;
}

bool Seat::come_back() {
  // A caller that closes the loop notifies the thread before it releases the loop.
  const auto called = [this] { return thread_needed_ && sitter_ == Sitter::kNobody; };
  std::unique_lock lock(mutex_);
  for (std::uint64_t seen = sittings_; !closed_ && sitter_ != Sitter::kThread; seen = sittings_) {
    if (changed_.wait_for(lock, kEmptyFor, called)) {
      thread_needed_ = false;
      sitter_ = Sitter::kThread;
    } else if (sitter_ == Sitter::kNobody && sittings_ == seen) {
      sitter_ = Sitter::kThread;
    }
  }
  if (closed_) changed_.wait(lock, [this] { return sitter_ != Sitter::kCaller; });
  return !closed_;
}

void Seat::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  call_thread();
}

}  // namespace lockstep::transport
