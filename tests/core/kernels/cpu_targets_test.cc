#include "core/kernels/cpu_targets.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace lockstep {
namespace {

// Also shows that builds without Highway's library are not slower: the best instruction set is the same.
TEST(CpuTargets, EqualTheTargetsThatHighwayFinds) {
#if HWY_ARCH_X86
  EXPECT_EQ(cpu_targets() & HWY_TARGETS, hwy::SupportedTargets() & HWY_TARGETS);
#endif
  EXPECT_NE(cpu_targets() & HWY_STATIC_TARGET, 0) << "the baseline of the build";
}

}  // namespace
}  // namespace lockstep
