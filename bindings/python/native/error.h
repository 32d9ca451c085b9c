// Statuses of the C API as Python exceptions (lockstep/errors.py).
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>
#include <utility>

#include "bindings/python/native/gil.h"
#include "lockstep.h"

namespace lockstep::python {

namespace py = pybind11;

// Imports what raise() needs. When the module is imported.
void prepare_errors();

// Raises the exception of this status. `result` is its attribute of that name; may be None.
[[noreturn]] void raise(lockstep_status status, const std::string& text, const py::object& result);

// Raises a RuntimeError once the interpreter is ending.
void refuse_at_exit();

// Text of the library, which may hold what other peers have given it, in any encoding.
py::str to_text(std::string_view text);

// Raises InvalidArgument.
[[noreturn]] void raise_invalid(const std::string& text);

// This thread's lockstep_last_error(). Says `minimum_world` where that says `args.minimum_world`: Python has no
// structs.
std::string last_error();

// Raises unless the status is LOCKSTEP_OK; with this thread's lockstep_last_error() as text.
void check(lockstep_status status);

// Runs a function of the C API without the GIL: in a simulated swarm even one that only looks gives others their turn.
// Raises unless it gives LOCKSTEP_OK.
template <typename Function>
void checked(Function&& function) {
  lockstep_status status = LOCKSTEP_OK;
  {
    const WithoutGil released;
    status = std::forward<Function>(function)();
  }
  check(status);
}

// Raises what Python has set meanwhile, such as KeyboardInterrupt; returns if nothing is set.
void raise_pending();

// An attribute of a module of the package, imported when it is first needed.
py::object from_package(const char* module, const char* name);

}  // namespace lockstep::python
