// Assertions that stay in every build. They guard our own mistakes; what the network may do is a value (Result).
#pragma once

namespace lockstep {

// Prints the broken condition with its place to standard error and aborts the process.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace lockstep

#define LOCKSTEP_ASSERT(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::lockstep::assertion_failed(#condition, __FILE__, __LINE__))

#define LOCKSTEP_UNREACHABLE() ::lockstep::assertion_failed("unreachable", __FILE__, __LINE__)
