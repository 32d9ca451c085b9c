// The instruction sets of Highway that this machine can run. A build that does not link Highway's library
// (LOCKSTEP_OWN_HWY) takes the two functions that dispatch needs from this file.
#pragma once

#include <cstdint>

namespace lockstep {

// HWY_* bits, including the baseline of the build. Equal to hwy::SupportedTargets() on x86-64; on other architectures
// only the baseline.
std::int64_t cpu_targets();

}  // namespace lockstep
