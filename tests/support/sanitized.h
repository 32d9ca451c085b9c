// Sanitizers make a run about ten times slower: tests with many runs use fewer of them.
#pragma once

namespace lockstep {

#ifdef LOCKSTEP_SANITIZED  // defined by CMake for every compiler
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Tests with many runs use one run in kShare.
inline constexpr unsigned kShare = kSanitized ? 5 : 1;

}  // namespace lockstep
