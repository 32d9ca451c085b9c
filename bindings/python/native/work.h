// A call in flight as a Python object.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "bindings/python/native/call.h"

namespace lockstep::python {

// A type that only makes the stub more precise.
struct Awaited : py::object {
  explicit Awaited(py::object generator) : py::object(std::move(generator)) {}
};

class Work {
 public:
  Work(std::shared_ptr<Call> call, py::object owner) : call_(std::move(call)), owner_(std::move(owner)) {}
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work() { Call::let_go(std::move(call_)); }

  [[nodiscard]] bool done();
  std::shared_ptr<Result> result(const py::object& timeout);
  // As result(None), for a caller that needs no Result.
  void until_over();
  void abort(const py::object& why);
  [[nodiscard]] Numbers progress() const;

  [[nodiscard]] const Call& call() const { return *call_; }
  [[nodiscard]] Call& call() { return *call_; }
  // Called once with the Result, when Python first sees that the call is over.
  py::object on_end = py::none();
  // Called with the Result of a call that has succeeded, each time that it is taken: may raise.
  py::object judge = py::none();

 private:
  lockstep_status wait(const py::object& timeout, lockstep_result* raw);
  void ended(lockstep_status status, const lockstep_result& raw);

  std::shared_ptr<Call> call_;
  py::object owner_;  // the communicator; it lives as long as any handle of its calls
  std::shared_ptr<Result> result_;
  std::string error_;
};

void define_work(py::module_& module);

}  // namespace lockstep::python

// NOLINTBEGIN(readability-identifier-naming): a name that pybind11 looks for
namespace pybind11::detail {

template <>
struct handle_type_name<lockstep::python::Awaited> {
  static constexpr auto name = const_name("collections.abc.Generator[object, None, lockstep._lockstep.Result]");
};

}  // namespace pybind11::detail
// NOLINTEND(readability-identifier-naming)
