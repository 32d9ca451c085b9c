#include "bindings/python/native/call.h"

#include <atomic>
#include <cmath>
#include <mutex>
#include <string>
#include <utility>

#include "bindings/python/native/convert.h"
#include "bindings/python/native/error.h"
#include "bindings/python/native/fork.h"
#include "bindings/python/native/handle.h"
#include "bindings/python/native/state.h"

namespace lockstep::python {
namespace {

// Ended calls and other loans, until a thread with the GIL returns them.
struct Ended {
  std::mutex mutex;
  std::vector<std::shared_ptr<Call>*> calls;
  std::vector<std::shared_ptr<void>> loans;
  std::atomic<bool> any{false};
  std::atomic<bool> scheduled{false};
};

Ended& ended() { return OfProcess<Ended>::get(); }

int collect_later(void* /*unused*/) {
  ended().scheduled.store(false);
  collect();
  return 0;
}

void schedule() {
  ended().any.store(true, std::memory_order_release);
  if (is_exiting() || ended().scheduled.exchange(true)) return;
  if (Py_AddPendingCall(&collect_later, nullptr) != 0) ended().scheduled.store(false);
}

std::atomic<unsigned long> main_thread{0};  // Python's id of the thread

// Called on a thread that waits without the GIL. Only the main thread handles signals.
int interrupt(void* /*unused*/) {
  if (PyThread_get_thread_ident() != main_thread.load(std::memory_order_relaxed)) return 0;
  const py::gil_scoped_acquire acquired;
  collect();
  return PyErr_CheckSignals() != 0 ? 1 : 0;  // its exception stays set until the wait returns to Python
}

}  // namespace

std::shared_ptr<Call> Call::start(lockstep_work* work, Loans loans, Return when) {
  std::shared_ptr<Call> call(new Call(work, std::move(loans), when));
  if (when == Return::kAtTheEnd) return_at_the_end(call);
  return call;
}

void Call::return_at_the_end(std::shared_ptr<Call> call) {
  lockstep_work* const work = call->work_;
  lockstep_on_end(work, &Call::on_end, new std::shared_ptr<Call>(std::move(call)));
}

void Call::let_go(std::shared_ptr<Call> call) {
  if (call->return_ == Return::kOnceSeen && !call->returned_) return_at_the_end(std::move(call));
}

void Call::on_end(void* user) {
  {
    const std::lock_guard lock(ended().mutex);
    ended().calls.push_back(static_cast<std::shared_ptr<Call>*>(user));
  }
  schedule();
}

// Keeps the values of a state for a later request of the result.
void Call::give_back() {
  returned_ = true;
  if (loans_.taken) {
    lockstep_result& raw = blank_result();
    const lockstep_status status = lockstep_test(work_, &raw);
    try {
      if (status == LOCKSTEP_OK)
        std::exchange(loans_.taken, {})(std::make_shared<Result>(raw), loans_.state->current_values());
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("lockstep");
    }
  }
  // The end of an array may run any code of Python, and let another thread do so, which may come here again: nothing is
  // in loans_ then.
  const auto arrays = std::exchange(loans_.arrays, {});
  const auto watched = std::exchange(loans_.watched, {});
  if (!loans_.state) return;
  const auto of_state = std::exchange(loans_.state->arrays, {});
}

Call::~Call() { lockstep_work_free(work_); }

void Call::notify(std::function<void()> function) {
  auto* const owned = new std::function<void()>(std::move(function));
  lockstep_notify(
      work_,
      [](void* user) {
        const std::unique_ptr<std::function<void()>> once(static_cast<std::function<void()>*>(user));
        (*once)();
      },
      owned);
}

void collect() {
  Ended& place = ended();
  if (!place.any.load(std::memory_order_acquire)) return;
  std::vector<std::shared_ptr<Call>*> calls;
  std::vector<std::shared_ptr<void>> loans;
  {
    const std::lock_guard lock(place.mutex);
    calls.swap(place.calls);
    loans.swap(place.loans);
    place.any.store(false, std::memory_order_relaxed);
  }
  for (auto* const call : calls) {
    (*call)->give_back();
    delete call;
  }
}

void give_back_later(std::shared_ptr<void> loan) {
  {
    const std::lock_guard lock(ended().mutex);
    ended().loans.push_back(std::move(loan));
  }
  schedule();
}

std::int64_t milliseconds_of(const py::handle& seconds, const char* name, bool may_be_zero) {
  if (seconds.is_none()) return LOCKSTEP_FOREVER;
  const double value = to_double(seconds, name);
  if (std::isnan(value) || value < 0 || (value == 0 && !may_be_zero)) {
    raise_invalid(std::string(name) + " is " + std::to_string(value) +
                  " s; allowed: " + (may_be_zero ? "0 or more" : "more than 0") + ", or None for none");
  }
  constexpr double kCentury = 100.0 * 365 * 24 * 3600;
  return value >= kCentury ? LOCKSTEP_FOREVER : static_cast<std::int64_t>(std::ceil(value * 1000));
}

void install_interrupt() {
  pthread_atfork(nullptr, nullptr, [] { main_thread = PyThread_get_thread_ident(); });
  main_thread = py::cast<unsigned long>(py::module_::import("threading").attr("main_thread")().attr("ident"));
  lockstep_set_interrupt(&interrupt, nullptr);
}

std::shared_ptr<Result> detail::finish(lockstep_status status, const lockstep_result& raw, Loans& loans) {
  auto result = std::make_shared<Result>(raw);
  if (status == LOCKSTEP_ERR_INTERRUPTED) {
    if (lockstep_work* const work = lockstep_interrupted()) Call::start(work, std::move(loans));
    raise_pending();
    raise(status, last_error(), py::cast(result));
  }
  if (status == LOCKSTEP_OK && loans.taken) {
    const py::error_scope interrupted;  // Ctrl-C may have arrived together with the outcome
    loans.taken(result, loans.state->current_values());
  }
  raise_pending();
  if (status != LOCKSTEP_OK) raise(status, last_error(), py::cast(result));
  return result;
}

}  // namespace lockstep::python
