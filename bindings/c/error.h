// How a function of the C API fails: a status to return and a sentence for lockstep_last_error().
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <string_view>
#include <utility>

#include "core/base/result.h"
#include "lockstep.h"

namespace lockstep::c {

// Keeps `text` as this thread's last error and returns `status`. Allocates nothing; cuts what is too long.
lockstep_status fail(lockstep_status status, std::string_view text) noexcept;
lockstep_status fail(const Error& error) noexcept;

// An argument is wrong by itself. The text names it, its value and what is allowed.
template <typename... Args>
Error invalid(fmt::format_string<Args...> format, Args&&... args) {
  return Error{Status::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...)};
}

constexpr lockstep_status to_c(Status status) { return static_cast<lockstep_status>(status); }

// The number in an enum that a C caller has filled. C lets it hold anything; in C++ loading such a value as the enum is undefined.
template <typename Enum>
unsigned number_of(const Enum& value) noexcept {
  static_assert(sizeof(Enum) == sizeof(unsigned));
  unsigned number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

}  // namespace lockstep::c
