// A kernel must compute the same bits with every instruction set that it was compiled for: TEST_P(..., EveryTarget)
// runs once for each set that this machine has.
#pragma once

#include <cstdint>
#include <string>

#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace lockstep::test {

class EveryTarget : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { choose(GetParam()); }
  void TearDown() override { choose(0); }

 private:
  // 0: the best one, as usual.
  static void choose(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

inline std::string target_name(const testing::TestParamInfo<std::int64_t>& info) { return hwy::TargetName(info.param); }

}  // namespace lockstep::test

// Once in each source, for each suite derived from EveryTarget.
#define LOCKSTEP_ON_EVERY_TARGET(suite)                                                       \
  INSTANTIATE_TEST_SUITE_P(On, suite, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()), \
                           lockstep::test::target_name)
