// Converts keyword arguments to fields of a C struct. Missing or None: the field's default, 0.
#pragma once

#include <pybind11/pybind11.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "bindings/python/native/call.h"
#include "bindings/python/native/convert.h"
#include "bindings/python/native/error.h"
#include "lockstep.h"

namespace lockstep::python {

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
  // In milliseconds; 0: no timeout.
  [[nodiscard]] std::int64_t timeout(const char* name) const {
    const py::object value = get(name);
    return value.is_none() ? 0 : milliseconds_of(value, name, false);
  }
  // Seconds in units of `unit` seconds, rounded up; 0: the default.
  [[nodiscard]] std::uint32_t duration(const char* name, double unit) const {
    const py::object value = get(name);
    if (value.is_none()) return 0;
    const double seconds = to_double(value, name);
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
    return value.is_none() ? std::string() : to_utf8(value, name);
  }
  [[nodiscard]] std::string path(const char* name) const {
    const py::object value = get(name);
    return value.is_none() ? std::string() : to_path(value, name);
  }
  [[nodiscard]] py::object get(const char* name) const {
    return from_.contains(name) ? py::object(from_[name]) : py::none();
  }

 private:
  const py::dict& from_;
};

// A C string that is NULL when empty.
inline const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

// The files of lockstep_certificates.
class Certificates {
 public:
  explicit Certificates(const Options& from)
      : certificate_(from.path("certificate")),
        private_key_(from.path("private_key")),
        authority_(from.path("authority")),
        revocation_list_(from.path("revocation_list")) {}
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;
  ~Certificates() = default;

  // Null if there are none; valid as long as this object.
  [[nodiscard]] const lockstep_certificates* get() const { return certificate_.empty() ? nullptr : &files_; }

 private:
  std::string certificate_;
  std::string private_key_;
  std::string authority_;
  std::string revocation_list_;
  lockstep_certificates files_{certificate_.c_str(), private_key_.c_str(), authority_.c_str(),
                               or_null(revocation_list_)};
};

}  // namespace lockstep::python
