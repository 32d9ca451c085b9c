// Which of Highway's instruction sets this machine can run. For builds that do not link Highway's library
// (LOCKSTEP_OWN_HWY): they take the two functions of it that dispatch needs from here.
#pragma once

#include <cstdint>

namespace lockstep {

// HWY_* bits, the baseline of the build included. Equal to hwy::SupportedTargets() on x86-64; elsewhere the baseline
// only.
std::int64_t cpu_targets();

}  // namespace lockstep
