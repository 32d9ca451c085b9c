#include "bindings/python/native/error.h"

#include <string_view>

namespace lockstep::python {

py::object from_package(const char* module, const char* name) { return py::module_::import(module).attr(name); }

void raise(lockstep_status status, const std::string& text, const py::object& result) {
  const py::object error = from_package("lockstep.errors", "error_of")(static_cast<int>(status), text, result);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw py::error_already_set();
}

void raise_invalid(const std::string& text) { raise(LOCKSTEP_ERR_INVALID_ARGUMENT, text, py::none()); }

std::string last_error() {
  std::string text = lockstep_last_error();
  for (const std::string_view prefix : {"args.", "options."}) {
    for (auto at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at))
      text.erase(at, prefix.size());
  }
  return text;
}

void check(lockstep_status status) {
  if (status != LOCKSTEP_OK) raise(status, last_error(), py::none());
}

void raise_pending() {
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
}

}  // namespace lockstep::python
