#include "bindings/c/calls.h"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "bindings/c/interrupt.h"

namespace lockstep::c {
void Calls::add(const Work& work) try {
  const std::lock_guard lock(mutex_);
  held_.emplace(work.id().value, Held{work});
} catch (const std::bad_alloc&) {  // the caller will see an error, so no call may stay in flight
  {
    const std::lock_guard lock(mutex_);
    if (communicator_ != nullptr) communicator_->stop(work, "out of memory");
  }
  work.wait();
  throw;
}

void Calls::remove(const Work& work) {
  const std::lock_guard lock(mutex_);
  held_.erase(work.id().value);
}

void Calls::stop(const Work& work, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (const auto at = held_.find(work.id().value); at != held_.end()) stop_once(at->second, why);
}

void Calls::stop_all(const std::string& why) {
  const std::lock_guard lock(mutex_);
  for (auto& [id, held] : held_) stop_once(held, why);
}

void Calls::stop_once(Held& held, const std::string& why) {
  if (communicator_ == nullptr || held.stopping || held.work.test()) return;
  communicator_->stop(held.work, why);
  held.stopping = true;
}

void Calls::detach() {
  const std::lock_guard lock(mutex_);
  communicator_ = nullptr;
}

namespace {

constexpr auto kInterrupted = "interrupted";

// Among healthy peers an aborted call ends sooner than this. A person does not notice the delay.
constexpr Duration kEndsWithin = milliseconds(20);

// Waits for `work` on the calling thread for at most kEndsWithin. Returns whether the call is over.
bool ends_soon(Calls& calls, const Work& work) {
  calls.stop(work, kInterrupted);
  return work.wait(kEndsWithin);
}

}  // namespace

lockstep_comm* handle_of(std::unique_ptr<Communicator> communicator) {
  return new lockstep_comm(std::move(communicator));
}

lockstep_status wait_for(lockstep_comm& comm, const Work& work, lockstep_result* result) {
  comm.calls->add(work);
  const PeerId self = comm.communicator->self();
  const auto waited = work.wait(std::nullopt, interrupted());
  if (comm.forked()) return fail_forked();  // called in the child, by the function that may interrupt
  if (waited == transport::Waited::kInterrupted && !ends_soon(*comm.calls, work)) {
    auto left = std::unique_ptr<lockstep_work>(new (std::nothrow) lockstep_work{work, comm.calls, self});
    if (left != nullptr) {
      comm.calls->remove(work);  // the call is being stopped already
      leave_behind(std::move(left));
      return report_interrupted(result);
    }
    work.wait();  // waits, because the memory would still be lent
  }
  comm.calls->remove(work);
  return report(work, self, result);
}

}  // namespace lockstep::c
