#include "bindings/cli/core_dumps.h"

#include <sys/prctl.h>
#include <sys/resource.h>

namespace lockstep::cli {

// The limit alone does not count where core dumps go to a program (core(5)).
void leave_no_core_dump() {
  const rlimit none{};
  ::setrlimit(RLIMIT_CORE, &none);
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

}  // namespace lockstep::cli
