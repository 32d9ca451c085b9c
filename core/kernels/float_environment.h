// Floating-point arithmetic as IEEE 754 has it by default (to nearest even, denormals kept), for a scope. Threads
// inherit their environment, and one shared library built with -ffast-math makes a whole process flush denormals to
// zero: without this, two peers would compute different bits.
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
