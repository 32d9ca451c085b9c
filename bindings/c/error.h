// How a function of the C API fails: a status to return and a sentence for lockstep_last_error().
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <string_view>
#include <utility>

#include "core/base/result.h"
#include "lockstep.h"

namespace lockstep::c {

// Stores `text` as this thread's last error and returns `status`. Does not allocate; cuts text that is too long.
lockstep_status fail(lockstep_status status, std::string_view text) noexcept;
lockstep_status fail(const Error& error) noexcept;

// An invalid argument. The text names the argument, its value and the allowed values.
template <typename... Args>
Error invalid(fmt::format_string<Args...> format, Args&&... args) {
  return Error{Status::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...)};
}

constexpr lockstep_status to_c(Status status) { return static_cast<lockstep_status>(status); }

// The number in an enum field filled by a C caller. In C the field can hold any number; in C++ loading an unlisted
// value as the enum is undefined.
template <typename Enum>
unsigned number_of(const Enum& value) noexcept {
  static_assert(sizeof(Enum) == sizeof(unsigned));
  unsigned number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

}  // namespace lockstep::c
