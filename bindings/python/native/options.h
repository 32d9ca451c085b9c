// Keyword arguments as the fields of a C struct. Missing or None: the field's default, 0.
#pragma once

#include <pybind11/pybind11.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "bindings/python/native/call.h"
#include "bindings/python/native/error.h"

namespace lockstep::python {

// Raises InvalidArgument, naming the argument, for what does not fit into Number.
template <typename Number>
Number to_number(const py::handle& value, const char* name) {
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!index) throw py::error_already_set();  // a TypeError
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
  raise_invalid(std::string(name) + " is " + py::cast<std::string>(py::str(value)) +
                "; allowed: " + std::to_string(std::numeric_limits<Number>::min()) + " to " +
                std::to_string(std::numeric_limits<Number>::max()));
}

// Raises a TypeError, naming the argument, for what is neither true nor false.
inline bool to_flag(const py::handle& value, const char* name) {
  try {
    return py::cast<bool>(value);
  } catch (const py::cast_error&) {
    throw py::type_error(std::string(name) + " is " + py::cast<std::string>(py::repr(value)) +
                         "; allowed: True or False");
  }
}

// Raises a TypeError for what is no number.
inline double to_double(const py::handle& value) {
  const double number = PyFloat_AsDouble(value.ptr());
  raise_pending();
  return number;
}

class Options {
 public:
  explicit Options(const py::dict& from) : from_(from) {}

  template <typename Number>
  [[nodiscard]] Number number(const char* name) const {
    const py::object value = get(name);
    return value.is_none() ? Number{0} : to_number<Number>(value, name);
  }
  [[nodiscard]] int flag(const char* name) const {
    const py::object value = get(name);
    return !value.is_none() && to_flag(value, name) ? 1 : 0;
  }
  // In milliseconds; 0: none.
  [[nodiscard]] std::int64_t timeout(const char* name) const {
    const py::object value = get(name);
    return value.is_none() ? 0 : milliseconds_of(value, name, false);
  }
  // Seconds as units of `unit` seconds, rounded up; 0: the default.
  [[nodiscard]] std::uint32_t duration(const char* name, double unit) const {
    const py::object value = get(name);
    if (value.is_none()) return 0;
    const double seconds = to_double(value);
    const double units = std::ceil(seconds / unit);
    if (!(seconds > 0) || units > std::numeric_limits<std::uint32_t>::max()) {
      raise_invalid(std::string(name) + " is " + std::to_string(seconds) + " s; allowed: more than 0, at most " +
                    std::to_string(std::numeric_limits<std::uint32_t>::max() * unit) + " s");
    }
    return static_cast<std::uint32_t>(units);
  }
  // Empty: the default.
  [[nodiscard]] std::string text(const char* name) const {
    const py::object value = get(name);
    if (value.is_none()) return {};
    if (PyUnicode_Check(value.ptr()) != 0) return py::cast<std::string>(value);
    throw py::type_error(std::string(name) + " is " + py::cast<std::string>(py::repr(value)) + "; allowed: a str");
  }
  [[nodiscard]] py::object get(const char* name) const {
    return from_.contains(name) ? py::object(from_[name]) : py::none();
  }

 private:
  const py::dict& from_;
};

// A C string that is NULL when empty.
inline const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

}  // namespace lockstep::python
