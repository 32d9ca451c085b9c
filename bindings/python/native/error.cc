#include "bindings/python/native/error.h"

#include <pybind11/gil_safe_call_once.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "bindings/python/native/handle.h"

namespace lockstep::python {
namespace {

// Objects of lockstep.errors. Kept, because nothing can be imported while the interpreter exits.
struct Errors {
  py::object error_of = from_package("lockstep.errors", "error_of");
  py::dict by_status = from_package("lockstep.errors", "BY_STATUS");
};

const Errors& errors() {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<Errors> kept;
  return kept.call_once_and_store_result([] { return Errors(); }).get_stored();
}

// Runs no Python code. On a thread that runs Python code while the interpreter exits, Python may unwind the stack,
// including the stack of the calling C++ code.
py::object error_at_exit(lockstep_status status, const py::str& text, const py::object& result) {
  py::object error = errors().by_status[py::int_(static_cast<int>(status))](text);
  error.attr("result") = result;
  return error;
}

// What the texts of the C library call otherwise in Python.
constexpr std::pair<std::string_view, std::string_view> kWords[] = {
    {"tensors_count is", "the number of arrays is"},
    {"call lockstep_connect() first", "call connect() first"},
    {": lockstep_interrupted() returns its handle", ""},
    {"send and recv overlap", "array and out overlap"},
    {"overlaps send or recv", "overlaps array or out"},
    {"send at this rank's own place in recv", "array at this rank's own place in out"},
    {"send is inside recv", "array is inside out"},
    {"separate memory for send and recv", "separate memory for array and out"},
};

constexpr const char* kExiting =
    ": the main thread has ended, which closes every communicator; join() the threads that use one before it ends";

}  // namespace

py::object from_package(const char* module, const char* name) { return py::module_::import(module).attr(name); }

void prepare_errors() { errors(); }

void raise(lockstep_status status, const std::string& text, const py::object& result) {
  const bool is_over = status == LOCKSTEP_ERR_NOT_CONNECTED || status == LOCKSTEP_ERR_OUTCOME_UNKNOWN;
  const py::object error = is_over && is_exiting() ? error_at_exit(status, to_text(text + kExiting), result)
                                                   : errors().error_of(static_cast<int>(status), to_text(text), result);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw py::error_already_set();
}

void refuse_at_exit() {
  if (is_exiting()) throw std::runtime_error(std::string("nothing new may begin") + kExiting);
}

py::str to_text(std::string_view text) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

void raise_invalid(const std::string& text) { raise(LOCKSTEP_ERR_INVALID_ARGUMENT, text, py::none()); }

std::string in_python(std::string text) {
  for (const std::string_view prefix : {"args.", "options."}) {
    for (auto at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at))
      text.erase(at, prefix.size());
  }
  for (const auto& [from, to] : kWords) {
    if (const auto at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
  }
  // "silence_ms is 10" becomes "silence is 10 ms"
  constexpr std::string_view kUnit = "_ms is ";
  for (auto at = text.find(kUnit); at != std::string::npos; at = text.find(kUnit, at)) {
    text.erase(at, 3);
    text.insert(std::min(text.size(), text.find_first_not_of("-0123456789", at + kUnit.size() - 3)), " ms");
  }
  return text;
}

std::string last_error() { return in_python(lockstep_last_error()); }

void check(lockstep_status status) {
  if (status != LOCKSTEP_OK) raise(status, last_error(), py::none());
}

void raise_pending() {
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
}

}  // namespace lockstep::python
