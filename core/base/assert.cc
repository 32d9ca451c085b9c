#include "core/base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace lockstep {

void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "lockstep: assertion failed: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace lockstep
