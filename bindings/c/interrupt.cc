#include "bindings/c/interrupt.h"

#include <atomic>
#include <cstdint>
#include <utility>

#include "bindings/c/calls.h"
#include "bindings/c/error.h"
#include "bindings/c/guard.h"
#include "transport/forks.h"

using namespace lockstep;  // NOLINT(google-build-using-namespace): the C API is a thin coat over it

namespace lockstep::c {
namespace {

struct Question {
  lockstep_interrupt_fn function = nullptr;
  void* user = nullptr;
};

std::atomic<bool> is_set{false};  // avoids the lock for calls that never wait long
Question question;                // under a ForkLock

thread_local std::unique_ptr<lockstep_work> left_behind;
thread_local bool no_wait = false;

// Calls the program's function without the lock: the function may take long, set another function, and fork. A child
// does not wait.
bool ask() {
  Question now;
  {
    const transport::ForkLock lock;
    now = question;
  }
  const std::uint64_t process = transport::process_number();
  const bool enough = now.function != nullptr && now.function(now.user) != 0;
  return enough || process != transport::process_number();
}

}  // namespace

transport::Interrupted interrupted() { return is_set.load(std::memory_order_relaxed) ? &ask : nullptr; }

bool waits_for_room() { return !no_wait; }

void leave_behind(std::unique_ptr<lockstep_work> work) { left_behind = std::move(work); }

lockstep_status fail_interrupted() {
  return fail(LOCKSTEP_ERR_INTERRUPTED, "the wait was interrupted; the call is still in flight");
}

}  // namespace lockstep::c

lockstep_status lockstep_set_interrupt(lockstep_interrupt_fn interrupt, void* user) {
  return c::guard([&] {
    const transport::ForkLock lock;
    c::question = {interrupt, user};
    c::is_set.store(interrupt != nullptr, std::memory_order_relaxed);
    return LOCKSTEP_OK;
  });
}

lockstep_work* lockstep_interrupted(void) {
  if (c::left_behind == nullptr || c::left_behind->forked()) return nullptr;
  return c::left_behind.release();
}

int lockstep_set_no_wait(int fails) { return std::exchange(c::no_wait, fails != 0) ? 1 : 0; }
