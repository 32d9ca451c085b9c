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

// Imports the objects that raise() needs. Called when the module is imported.
void prepare_errors();

// Raises the exception of this status. `result`: the exception's attribute of that name; may be None.
[[noreturn]] void raise(lockstep_status status, const std::string& text, const py::object& result);

// Raises a RuntimeError if the interpreter is exiting.
void refuse_at_exit();

// Converts text of the library. It may contain text of other peers, in any encoding.
py::str to_text(std::string_view text);

// Raises InvalidArgument.
[[noreturn]] void raise_invalid(const std::string& text);

// A text of the C library for a program in Python: without structs, pointers and functions of C.
std::string in_python(std::string text);

// This thread's lockstep_last_error(), in_python(). Replaces `args.minimum_world` by `minimum_world`, because Python
// has no structs.
std::string last_error();

// Raises unless the status is LOCKSTEP_OK; the text is this thread's lockstep_last_error().
void check(lockstep_status status);

// Runs a function of the C API without the GIL, because in a simulated swarm even a query lets other programs run.
// Raises unless the function returns LOCKSTEP_OK.
template <typename Function>
void checked(Function&& function) {
  lockstep_status status = LOCKSTEP_OK;
  {
    const WithoutGil released;
    status = std::forward<Function>(function)();
  }
  check(status);
}

// Raises a pending Python exception such as KeyboardInterrupt; returns if there is none.
void raise_pending();

// An attribute of a module of the package, imported on first use.
py::object from_package(const char* module, const char* name);

}  // namespace lockstep::python
