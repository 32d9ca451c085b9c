// Calls in flight: their loans from Python until the outcome, and the notification of Python.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/python/native/array.h"
#include "bindings/python/native/gil.h"
#include "bindings/python/native/result.h"
#include "lockstep.h"

namespace lockstep::python {

struct StateArgs;

// The loans of a call. Destroyed with the GIL held.
struct Loans {
  std::vector<Array> arrays;
  std::shared_ptr<StateArgs> state;    // synced, published or prefetched
  std::shared_ptr<StateArgs> watched;  // watched during the call
  py::object taken;  // called with a Result and the values of the state if the call succeeds; may be null
};

// The handle of a call and its loans. The loans live until the outcome, even without a Call object. Created, shared and
// destroyed with the GIL held.
class Call {
 public:
  // When the loans are returned.
  enum class Return : std::uint8_t {
    kAtTheEnd,  // soon after the end of the call
    kOnceSeen,  // when the owner of the object sees the end; at the end if the owner lets go before; costs less
  };

  // Takes ownership of the handle.
  static std::shared_ptr<Call> start(lockstep_work* work, Loans loans, Return when = Return::kAtTheEnd);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call();

  [[nodiscard]] lockstep_work* work() const { return work_; }
  [[nodiscard]] const std::shared_ptr<StateArgs>& state() const { return loans_.state; }
  // `ended` runs once, on any thread, without the GIL.
  void notify(std::function<void()> function);
  // Called when the call is over.
  void give_back();
  // The owner lets go of `call`, which may be in flight.
  static void let_go(std::shared_ptr<Call> call);

 private:
  Call(lockstep_work* work, Loans loans, Return when) : work_(work), loans_(std::move(loans)), return_(when) {}
  static void return_at_the_end(std::shared_ptr<Call> call);
  static void on_end(void* user);

  lockstep_work* work_;
  Loans loans_;
  Return return_;
  bool returned_ = false;
};

// Returns the loans of ended calls. Runs automatically on the main thread, every second on the thread that delivers log
// lines, and in every call of the package.
void collect();

// Destroys `loan` later, with the GIL held. Callable from any thread.
void give_back_later(std::shared_ptr<void> loan);

// Seconds as milliseconds, rounded up. None: no limit. Raises InvalidArgument unless `seconds` is above 0, or at least
// 0 if `may_be_zero`.
std::int64_t milliseconds_of(const py::handle& seconds, const char* name, bool may_be_zero);

// Installs the interrupt function, through which Ctrl-C ends every wait of the main thread.
void install_interrupt();

// Runs a blocking function without the GIL. Raises the error of the call, or returns its Result.
template <typename Function>
std::shared_ptr<Result> block(Loans& loans, Function&& function);

namespace detail {
// The end of a blocking call, with the GIL held again.
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
