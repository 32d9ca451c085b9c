// A value or an error, in the manner of std::expected (which C++20 lacks).
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "core/base/assert.h"
#include "core/base/status.h"

namespace lockstep {

// An error: a status to act on, and a sentence that says what happened, with which values, and what to do.
struct Error {
  Status status = Status::kInternal;
  std::string text;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor): for `return value;`
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor): for `return Error{...};`

  [[nodiscard]] bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  [[nodiscard]] T& value() {
    LOCKSTEP_ASSERT(ok());
    return std::get<T>(state_);
  }
  [[nodiscard]] const T& value() const {
    LOCKSTEP_ASSERT(ok());
    return std::get<T>(state_);
  }
  [[nodiscard]] const Error& error() const {
    LOCKSTEP_ASSERT(!ok());
    return std::get<Error>(state_);
  }

  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Error> state_;
};

}  // namespace lockstep
