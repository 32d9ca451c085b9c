// Sanitizers make a run about ten times as slow: tests of many runs take fewer of them.
#pragma once

namespace lockstep {

#ifdef LOCKSTEP_SANITIZED  // defined by CMake, whatever the compiler
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace lockstep
