// Calls in flight: what they borrow from Python until their outcome, and how Python learns of that.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "bindings/python/native/array.h"
#include "bindings/python/native/gil.h"
#include "bindings/python/native/result.h"
#include "lockstep.h"

namespace lockstep::python {

struct StateArgs;

// What a call borrows. Destroyed with the GIL held.
struct Loans {
  std::vector<Array> arrays;
  std::shared_ptr<StateArgs> state;    // that is synced, published or prefetched
  std::shared_ptr<StateArgs> watched;  // beside the call
  py::object taken;  // called with a Result and the values of the state if the call succeeds; may be null
};

// The handle of a call and its loans. The loans live until the outcome, also when nobody holds the Call any more.
// Created, shared and dropped with the GIL held.
class Call {
 public:
  // Takes the handle.
  static std::shared_ptr<Call> start(lockstep_work* work, Loans loans);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call();

  [[nodiscard]] lockstep_work* work() const { return work_; }
  [[nodiscard]] const std::shared_ptr<StateArgs>& state() const { return loans_.state; }
  // `ended` runs once, on any thread, without the GIL.
  void notify(std::function<void()> function);
  // The call is over.
  void give_back();

 private:
  explicit Call(lockstep_work* work) : work_(work) {}
  static void on_end(void* user);

  lockstep_work* work_;
  Loans loans_;
};

// Gives back what ended calls had borrowed. Happens by itself on the main thread, and every second on the one that
// takes lines of log; every call of the package does it, too.
void collect();

// Has the GIL held when it drops this. From any thread.
void give_back_later(std::shared_ptr<void> loan);

// Seconds as milliseconds, rounded up. None: forever. Raises InvalidArgument unless `seconds` is above 0, or 0 where
// `may_be_zero`.
std::int64_t milliseconds_of(const py::handle& seconds, const char* name, bool may_be_zero);

// Installs what lets Ctrl-C end every wait of the main thread.
void install_interrupt();

// Runs a blocking function without the GIL. Raises what the call ends with; gives its Result otherwise.
template <typename Function>
std::shared_ptr<Result> block(Loans& loans, Function&& function);

namespace detail {
// What a blocking call came to, with the GIL held again.
std::shared_ptr<Result> finish(lockstep_status status, const lockstep_result& raw, Loans& loans);
}  // namespace detail

template <typename Function>
std::shared_ptr<Result> block(Loans& loans, Function&& function) {
  collect();
  lockstep_result& result = blank_result();
  lockstep_status status = LOCKSTEP_OK;
  {
    const WithoutGil released;
    status = std::forward<Function>(function)(&result);
  }
  return detail::finish(status, result, loans);
}

}  // namespace lockstep::python
