// Converts Python arguments to numbers and text. An invalid value raises an error that names the argument.
#pragma once

#include <pybind11/pybind11.h>

#include <limits>
#include <string>
#include <type_traits>

#include "bindings/python/native/error.h"

namespace lockstep::python {

// Raises a TypeError: "tag is 'x'; allowed: an int". A pending Python exception becomes its cause.
[[noreturn]] void refuse_type(const py::handle& value, const char* name, const char* allowed);

// A value for an error text: its repr(), cut if it is long.
std::string shown(const py::handle& value);

bool to_flag(const py::handle& value, const char* name);

// Raises InvalidArgument if the value is too large for a double.
double to_double(const py::handle& value, const char* name);

// A str as UTF-8. Raises InvalidArgument for text that C cannot represent.
std::string to_utf8(const py::handle& value, const char* name);

// A path from lockstep._arguments.path_of().
std::string to_path(const py::handle& value, const char* name);

// Raises InvalidArgument if the value does not fit Number.
template <typename Number>
Number to_number(const py::handle& value, const char* name) {
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!index) refuse_type(value, name, "an int");
  bool fits = true;
  Number number = 0;
  if constexpr (std::is_unsigned_v<Number>) {
    const unsigned long long wide = PyLong_AsUnsignedLongLong(index.ptr());
    fits = PyErr_Occurred() == nullptr && wide <= std::numeric_limits<Number>::max();
    number = static_cast<Number>(wide);
  } else {
    const long long wide = PyLong_AsLongLong(index.ptr());
    fits = PyErr_Occurred() == nullptr && wide >= std::numeric_limits<Number>::min() &&
           wide <= std::numeric_limits<Number>::max();
    number = static_cast<Number>(wide);
  }
  PyErr_Clear();
  if (fits) return number;
  raise_invalid(std::string(name) + " is " + shown(value) +
                "; allowed: " + std::to_string(std::numeric_limits<Number>::min()) + " to " +
                std::to_string(std::numeric_limits<Number>::max()));
}

}  // namespace lockstep::python
