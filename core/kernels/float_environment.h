// Sets the default floating-point environment of IEEE 754 (round to nearest even, keep denormals) for a scope. Threads
// inherit their environment, and one shared library built with -ffast-math makes a whole process flush denormals to
// zero. Without this scope, two peers could compute different bits.
#pragma once

#include <cfenv>

namespace lockstep {

class StandardFloats {
 public:
  StandardFloats() {
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~StandardFloats() { std::fesetenv(&callers_); }
  StandardFloats(const StandardFloats&) = delete;
  StandardFloats& operator=(const StandardFloats&) = delete;

 private:
  std::fenv_t callers_{};
};

}  // namespace lockstep
