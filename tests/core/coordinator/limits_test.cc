// Limits of what the coordinator remembers (docs/limits.md).
#include <gtest/gtest.h>

#include "core/coordinator/claims.h"
#include "core/wire/limits.h"

namespace lockstep::coordinator {
namespace {

TEST(StateLimits, TheOldestAgreementIsForgotten) {
  Claims claims;
  const std::vector<wire::Member> members(1);
  for (std::uint64_t tag = 0; tag <= kMaxStates; ++tag) claims.agreed({CohortId{1}, {}, Tag{tag}, 0}, members);
  EXPECT_EQ(claims.agreed_entries(), std::size_t{2} * kMaxStates);
}

}  // namespace
}  // namespace lockstep::coordinator
