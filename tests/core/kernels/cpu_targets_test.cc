#include "core/kernels/cpu_targets.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace lockstep {
namespace {

// Also holds the claim that nothing is slower without Highway's library: the best set is the same.
TEST(CpuTargets, EqualTheTargetsThatHighwayFinds) {
#if HWY_ARCH_X86
  EXPECT_EQ(cpu_targets() & HWY_TARGETS, hwy::SupportedTargets() & HWY_TARGETS);
#endif
  EXPECT_NE(cpu_targets() & HWY_STATIC_TARGET, 0) << "the baseline of the build";
}

}  // namespace
}  // namespace lockstep
