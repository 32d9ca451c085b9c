// Statuses of the C API as Python exceptions (lockstep/errors.py).
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>

#include "lockstep.h"

namespace lockstep::python {

namespace py = pybind11;

// Raises the exception of this status. `result` is its attribute of that name; may be None.
[[noreturn]] void raise(lockstep_status status, const std::string& text, const py::object& result);

// What makes exceptions of statuses. Kept from the first call on: at the interpreter's end nothing can be imported any more.
const py::object& keep_errors();

// Raises a RuntimeError once the interpreter is ending.
void refuse_at_exit();

// Text of the library, which may hold what other peers have given it, in any encoding.
py::str to_text(std::string_view text);

// Raises InvalidArgument.
[[noreturn]] void raise_invalid(const std::string& text);

// Raises unless the status is LOCKSTEP_OK; with this thread's lockstep_last_error() as text.
void check(lockstep_status status);

// Raises what Python has set meanwhile, such as KeyboardInterrupt; returns if nothing is set.
void raise_pending();

// An attribute of a module of the package, imported when it is first needed.
py::object from_package(const char* module, const char* name);

}  // namespace lockstep::python
