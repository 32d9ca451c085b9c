#include "core/peer/jobs.h"

#include <gtest/gtest.h>

#include <optional>
#include <variant>

namespace lockstep::peer {
namespace {

constexpr std::uint64_t kPrefixes = std::uint64_t{1} << 32U;

KernelJob job(std::uint64_t own) { return {JobToken{own}, HashJob{}}; }

TEST(Jobs, TokensNameTheOwnerAndKeepItsOwnToken) {
  Jobs jobs(0);
  const JobPrefix round = jobs.open(Jobs::Use::kRound, 7);
  const JobPrefix transfer = jobs.open(Jobs::Use::kTransfer, 7);
  jobs.collected().push_back(job(5));
  Effects out;
  jobs.start(transfer, out);
  ASSERT_EQ(out.size(), 1U);
  const JobToken token = std::get<KernelJob>(out.front()).token;
  EXPECT_EQ(Jobs::own(token), JobToken{5});
  EXPECT_EQ(jobs.owner_of(token).use, Jobs::Use::kTransfer);
  EXPECT_EQ(jobs.owner_of(token).id, 7U);
  EXPECT_NE(round, transfer);
  EXPECT_TRUE(jobs.idle());
}

TEST(Jobs, APrefixInUseIsSkipped) {
  Jobs jobs(0);
  const JobPrefix first = jobs.open(Jobs::Use::kTransfer, 1);
  Jobs late(kPrefixes - 1);
  EXPECT_EQ(late.open(Jobs::Use::kRound, 1), first);  // 0 is skipped, too
  EXPECT_EQ(late.open(Jobs::Use::kRound, 2), JobPrefix{first.value + 1});
}

TEST(Jobs, APrefixMayBeClosedRepeatedly) {
  Jobs jobs(kPrefixes - 2);
  std::optional<JobPrefix> last = jobs.open(Jobs::Use::kRound, 1);
  const std::optional<JobPrefix> before = last;
  jobs.close(last);
  EXPECT_FALSE(last.has_value());
  jobs.close(last);  // a held sync that is abandoned twice has no jobs
  EXPECT_EQ(jobs.open(Jobs::Use::kRound, 2), JobPrefix{1});
  EXPECT_NE(before, JobPrefix{1});
}

}  // namespace
}  // namespace lockstep::peer
