// Sanitizers make a run about ten times as slow: tests of many runs take fewer of them.
#pragma once

namespace lockstep {

#ifdef LOCKSTEP_SANITIZED  // defined by CMake, whatever the compiler
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Of the runs that a test takes otherwise, one in so many.
inline constexpr unsigned kShare = kSanitized ? 5 : 1;

}  // namespace lockstep
