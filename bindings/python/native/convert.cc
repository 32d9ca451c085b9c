#include "bindings/python/native/convert.h"

#include "lockstep.h"

namespace lockstep::python {
namespace {

constexpr std::size_t kLongest = 100;  // characters of a value in an error text

// No text may show the secret of a run token.
std::string without_secrets(const std::string& text) {
  std::string redacted(2 * text.size() + 1, '\0');
  check(lockstep_redact(text.c_str(), redacted.data(), redacted.size()));
  redacted.resize(redacted.find('\0'));
  return redacted;
}

// Raises InvalidArgument if the text contains a NUL, which would end a C string.
void refuse_nul(const std::string& text, const py::handle& value, const char* name) {
  if (text.find('\0') != std::string::npos)
    raise_invalid(std::string(name) + " is " + shown(value) + ", which holds a NUL character");
}

}  // namespace

std::string shown(const py::handle& value) {
  const py::error_scope kept;
  auto text = py::reinterpret_steal<py::object>(PyObject_ASCII(value.ptr()));
  if (!text) {
    PyErr_Clear();
    return std::string("a ") + Py_TYPE(value.ptr())->tp_name;
  }
  auto cut = without_secrets(py::cast<std::string>(text));
  if (cut.size() > kLongest) cut = cut.substr(0, kLongest) + "...";
  return cut;
}

void refuse_type(const py::handle& value, const char* name, const char* allowed) {
  if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_Exception) == 0)
    throw py::error_already_set();  // Ctrl-C
  const std::string text = std::string(name) + " is " + shown(value) + "; allowed: " + allowed;
  if (PyErr_Occurred() == nullptr) throw py::type_error(text);
  py::raise_from(PyExc_TypeError, text.c_str());
  throw py::error_already_set();
}

bool to_flag(const py::handle& value, const char* name) {
  if (PyLong_Check(value.ptr()) == 0) {
    const std::string kind = Py_TYPE(value.ptr())->tp_name;  // numpy.bool is not an int, and its name has changed
    if (kind != "numpy.bool" && kind != "numpy.bool_") refuse_type(value, name, "True or False");
  }
  const int truth = PyObject_IsTrue(value.ptr());
  if (truth < 0) throw py::error_already_set();
  return truth != 0;
}

double to_double(const py::handle& value, const char* name) {
  const double number = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred() == nullptr) return number;
  if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) refuse_type(value, name, "a number");
  PyErr_Clear();
  raise_invalid(std::string(name) + " is " + shown(value) + ", which is too large for a float");
}

std::string to_utf8(const py::handle& value, const char* name) {
  if (PyUnicode_Check(value.ptr()) == 0) refuse_type(value, name, "a str");
  Py_ssize_t size = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (bytes == nullptr) {
    PyErr_Clear();
    raise_invalid(std::string(name) + " is " + shown(value) + ", which cannot be written as UTF-8");
  }
  std::string text(bytes, static_cast<std::size_t>(size));
  refuse_nul(text, value, name);
  return text;
}

std::string to_path(const py::handle& value, const char* name) {
  auto path = py::cast<std::string>(py::reinterpret_borrow<py::bytes>(value));
  refuse_nul(path, value, name);
  return path;
}

}  // namespace lockstep::python
