#include "bindings/python/native/work.h"

#include <pybind11/stl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python/native/error.h"
#include "bindings/python/native/gil.h"
#include "bindings/python/native/options.h"
#include "bindings/python/native/state.h"

namespace lockstep::python {
namespace {

// Wakes an event loop: a descriptor becomes readable when one of the watched calls is over. One per loop; needs no
// thread.
class Waker {
 public:
  Waker() : shared_(std::make_shared<Shared>()) {
    if (shared_->descriptor >= 0) return;
    PyErr_SetFromErrno(PyExc_OSError);
    throw py::error_already_set();
  }

  [[nodiscard]] int fileno() const { return shared_->descriptor; }

  void watch(Work& work, std::uint64_t token) {
    work.call().notify([shared = shared_, token] {
      const std::lock_guard lock(shared->mutex);
      shared->ended.push_back(token);
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(shared->descriptor, &one, sizeof one);
    });
  }

  std::vector<std::uint64_t> take() {
    const std::lock_guard lock(shared_->mutex);
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(shared_->descriptor, &count, sizeof count);
    return std::exchange(shared_->ended, {});
  }

 private:
  struct Shared {
    Shared() = default;
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    ~Shared() {
      if (descriptor >= 0) ::close(descriptor);
    }
    const int descriptor = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    std::mutex mutex;
    std::vector<std::uint64_t> ended;
  };
  std::shared_ptr<Shared> shared_;
};

[[noreturn]] void raise_wait_timed_out(const py::object& timeout) {
  raise(LOCKSTEP_ERR_PENDING,
        "the call is not over after " + py::cast<std::string>(py::str(timeout)) +
            " s and continues: wait again, or end it with abort()",
        py::none());
}

// The index of the first call that is over.
std::size_t wait_any(const py::list& works, const py::object& timeout) {
  std::vector<lockstep_work*> handles;
  handles.reserve(works.size());
  for (const py::handle work : works) {
    if (!py::isinstance<Work>(work))
      refuse_type(work, ("works[" + std::to_string(handles.size()) + "]").c_str(), "a lockstep.Work");
    handles.push_back(work.cast<Work&>().call().work());
  }
  const std::int64_t ms = milliseconds_of(timeout, "timeout", true);
  std::size_t index = 0;
  lockstep_status status = LOCKSTEP_OK;
  {
    const WithoutGil released;
    status = lockstep_wait_any(handles.data(), handles.size(), ms, &index);
  }
  raise_pending();
  if (status == LOCKSTEP_ERR_PENDING) raise_wait_timed_out(timeout);
  check(status);
  return index;
}

}  // namespace

void Work::ended(lockstep_status status, const lockstep_result& raw) {
  auto result = std::make_shared<Result>(raw);
  if (status != LOCKSTEP_OK) error_ = last_error();
  result_ = std::move(result);
  call_->give_back();
  collect();
  const py::object hook = std::exchange(on_end, py::none());
  if (hook.is_none()) return;
  hook(result_, call_->state() ? py::object(call_->state()->current_values()) : py::none());
}

bool Work::done() {
  if (result_) return true;
  lockstep_result& raw = blank_result();
  lockstep_status status = LOCKSTEP_OK;
  {
    const WithoutGil released;
    status = lockstep_test(call_->work(), &raw);
  }
  if (result_) return true;  // another thread was first
  if (status == LOCKSTEP_ERR_PENDING) return false;
  if (status == LOCKSTEP_ERR_FORKED) check(status);
  ended(status, raw);
  return true;
}

std::shared_ptr<Result> Work::result(const py::object& timeout) {
  // Without a limit, the wait itself is the only look.
  if (timeout.is_none() ? !result_ : !done()) {
    lockstep_result& raw = blank_result();
    const lockstep_status status = wait(timeout, &raw);
    if (!result_) ended(status, raw);  // another thread may have been first
  }
  if (result_->raw.status != LOCKSTEP_OK) raise(result_->raw.status, error_, py::cast(result_));
  if (!judge.is_none()) judge(result_);
  return result_;
}

void Work::until_over() {
  if (!result_ && on_end.is_none() && wait(py::none(), nullptr) == LOCKSTEP_OK) return call_->give_back();
  result(py::none());
}

// Returns the call's status; `raw` may be null.
lockstep_status Work::wait(const py::object& timeout, lockstep_result* raw) {
  const std::int64_t ms = milliseconds_of(timeout, "timeout", true);
  lockstep_status status = LOCKSTEP_OK;
  {
    const WithoutGil released;
    status = lockstep_wait(call_->work(), ms, raw);
  }
  raise_pending();
  if (status == LOCKSTEP_ERR_PENDING) raise_wait_timed_out(timeout);
  if (status == LOCKSTEP_ERR_FORKED) check(status);
  return status;
}

void Work::abort(const py::object& why) {
  const std::string text = to_utf8(why, "why");
  checked([&] { return lockstep_abort(call_->work(), text.c_str()); });
}

Numbers Work::progress() const {
  std::uint64_t bytes = 0;
  std::uint64_t of = 0;
  checked([&] { return lockstep_progress(call_->work(), &bytes, &of); });
  Numbers out(2);
  out[0] = bytes;
  out[1] = of;
  return out;
}

void define_work(py::module_& module) {
  py::class_<Work, std::shared_ptr<Work>>(module, "Work", py::dynamic_attr(),
                                          R"(A call in flight, from a method that ends in _async.

The call continues when the Work is dropped, and its arrays stay alive until the call is over. Under asyncio,
`await work` returns the Result.

Example:
    >>> work = run.all_reduce_async(gradient, op="avg")
    >>> work.done()
    False
    >>> result = work.wait(timeout=30)
)")
      .def("done", &Work::done, "Whether the call is over, however it ended. Never blocks.")
      .def("wait", &Work::result, py::arg("timeout") = py::none(),
           R"(Waits until the call is over and returns its Result.

timeout: seconds, None for no limit, 0 to look once.
Raises what the call ended with; WaitTimedOut (a TimeoutError) when the time is up: the call goes on.
Ctrl-C ends the wait, and the call goes on.)")
      .def("result", &Work::result, py::arg("timeout") = py::none(), "The same as wait(), as in concurrent.futures.")
      .def("abort", &Work::abort, py::arg("why") = "no reason given",
           R"(Ends a call that is not over: a collective for every peer, unless it is committed already. Does not wait.

why: for the error texts of all peers, at most 1024 bytes.)")
      .def("__await__",
           [](const py::object& self) { return Awaited(from_package("lockstep._asyncio", "until_over")(self)); })
      .def_property_readonly(
          "progress", &Work::progress,
          "How far a sync or prefetch is, as (bytes, of): bytes of the bytes that differ are here; (0, 0): not "
          "known yet.")
      .def_readwrite("_on_end", &Work::on_end)
      .def_readwrite("_judge", &Work::judge);
  module.def("wait_any", &wait_any, py::arg("works"), py::arg("timeout"));
  py::class_<Waker>(module, "Waker")
      .def(py::init<>())
      .def("fileno", &Waker::fileno)
      .def("watch", &Waker::watch, py::arg("work"), py::arg("token"))
      .def("take", &Waker::take);
  module.def("until_over", &Work::until_over, py::arg("work"));
}

}  // namespace lockstep::python
