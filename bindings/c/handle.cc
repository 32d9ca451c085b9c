#include "bindings/c/handle.h"

#include <array>

#include "transport/driver_mutant.h"

namespace lockstep::c {
namespace {

using transport::DriverMutant;

thread_local const Handle::Use* innermost = nullptr;

// Without a lock, because a child of fork() also adds handles. Never emptied, because threads may use a handle while
// the process ends.
std::array<std::atomic<Handle*>, Handle::kBuried> graves{};
std::atomic<std::size_t> buried{0};

}  // namespace

Handle::Use::Use(Handle& handle) : handle_(handle), inside_(handle.enter()), outer_(innermost) { innermost = this; }

Handle::Use::~Use() {
  innermost = outer_;
  if (inside_ && !handle_.forked()) handle_.leave();
}

void Handle::close(Handle* handle) {
  if (handle->forked()) return;
  const std::uint32_t own = handle->uses_of_this_thread();
  // another thread closes it, or a caller of this function on this thread
  if ((handle->state_.fetch_or(kClosed) & kClosed) != 0) {
    if (own == 0 && !planted(DriverMutant::kSecondCloserReturns)) handle->wait_until_empty();
    return;
  }
  handle->end();
  handle->wait_until_only(own);
  if (own == 0) return handle->make_empty();
  handle->state_.fetch_or(kLastOneEmpties);
}

void Handle::destroy(Handle* handle) {
  if (handle->forked()) return;
  const bool is_used_here = handle->uses_of_this_thread() > 0;
  close(handle);
  if ((handle->state_.fetch_or(kGone) & kGone) != 0) return;
  if (!is_used_here) handle->bury();
}

std::uint32_t Handle::uses_of_this_thread() const {
  std::uint32_t uses = 0;
  for (const Use* use = innermost; use != nullptr; use = use->outer_) {
    if (&use->handle_ == this && use->inside_) ++uses;
  }
  return uses;
}

bool Handle::enter() {
  if ((state_.fetch_add(1) & kClosed) == 0) return true;
  leave();
  return false;
}

// The destroying thread may return as soon as this thread has left. The handle itself stays in the graveyard.
void Handle::leave() {
  const std::uint32_t left = state_.fetch_sub(1) - 1;
  if ((left & kClosed) == 0) return;
  if ((left & ~kGone) == (kClosed | kLastOneEmpties) && (state_.fetch_and(~kLastOneEmpties) & kLastOneEmpties) != 0) {
    make_empty();
    if ((left & kGone) != 0) bury();
    return;
  }
  state_.notify_all();
}

void Handle::wait_until_only(std::uint32_t own) {
  for (std::uint32_t seen = state_.load(); (seen & kInside) > own; seen = state_.load()) state_.wait(seen);
}

void Handle::wait_until_empty() {
  for (std::uint32_t seen = state_.load(); (seen & kEmpty) == 0; seen = state_.load()) state_.wait(seen);
}

void Handle::make_empty() {
  empty();
  state_.fetch_or(kEmpty);
  state_.notify_all();
}

void Handle::bury() { delete graves[buried.fetch_add(1) % kBuried].exchange(this); }

lockstep_status fail_forked() noexcept {
  return fail(LOCKSTEP_ERR_FORKED,
              "the handle belongs to the parent of this forked process: make a new communicator here");
}

}  // namespace lockstep::c
