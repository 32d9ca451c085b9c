#include "core/kernels/run_job.h"

#include <cfenv>

#include <gtest/gtest.h>

#include "core/kernels/checksum.h"
#include "tests/support/elements.h"

namespace lockstep {
namespace {

using test::Bytes;
using test::hostile_elements;

FoldJob fold_job(DataType type, ReduceOp op, std::uint32_t divisor, const Bytes& from) {
  FoldJob job;
  job.expected = checksum(from);
  job.type = type;
  job.op = op;
  job.divisor = divisor;
  return job;
}

TEST(RunJob, HashIsTheChecksum) {
  const Bytes from = hostile_elements(DataType::kU8, 1000, 1);
  EXPECT_EQ(run_job(HashJob{}, {}, from, {}).checksum, checksum(from));
}

TEST(RunJob, CopyCopies) {
  const Bytes from = hostile_elements(DataType::kU8, 1000, 1);
  Bytes into(from.size());
  EXPECT_EQ(run_job(CopyJob{}, into, from, {}).checksum, 0U);
  EXPECT_EQ(into, from);
  EXPECT_TRUE(run_job(CopyJob{}, {}, {}, {}).intact);
}

TEST(RunJob, VerifyReportsTheChecksum) {
  Bytes from = hostile_elements(DataType::kU8, 1000, 1);
  const VerifyJob job{.from = {}, .expected = checksum(from)};
  EXPECT_TRUE(run_job(job, {}, from, {}).intact);
  from[500] ^= std::byte{1};
  const JobResult damaged = run_job(job, {}, from, {});
  EXPECT_FALSE(damaged.intact);
  EXPECT_EQ(damaged.checksum, checksum(from));
}

// Sizes around the block size of run_job, and 0.
TEST(RunJob, FoldVerifiesFoldsDividesAndHashes) {
  for (const auto type : test::kAllTypes) {
    for (const auto op : test::ops_of(type)) {
      for (const std::size_t bytes : {0U, 8U, 8184U, 8192U, 8200U, 40'000U}) {
        for (const std::uint32_t divisor : {0U, 3U}) {
          const std::size_t count = bytes / size_of(type);
          const Bytes from = hostile_elements(type, count, 1);
          const Bytes own = hostile_elements(type, count, 2);
          Bytes expected(from.size());
          reference::fold(type, op, expected, from, own);
          if (divisor != 0 && op == ReduceOp::kAvg) reference::divide(type, expected, divisor);

          Bytes landed = from;  // folded where it landed, as out-of-place collectives do
          const JobResult result = run_job(fold_job(type, op, divisor, from), landed, landed, own);
          EXPECT_TRUE(result.intact);
          EXPECT_EQ(result.checksum, checksum(expected));
          ASSERT_TRUE(landed == expected) << name_of(type) << ' ' << name_of(op) << ' ' << bytes;
        }
      }
    }
  }
}

TEST(RunJob, FoldReportsDamage) {
  Bytes from = hostile_elements(DataType::kF32, 10'000, 1);
  const Bytes own = hostile_elements(DataType::kF32, 10'000, 2);
  const FoldJob job = fold_job(DataType::kF32, ReduceOp::kSum, 0, from);
  Bytes into(from.size());
  EXPECT_TRUE(run_job(job, into, from, own).intact);
  from.back() ^= std::byte{0x80};
  EXPECT_FALSE(run_job(job, into, from, own).intact);
}

// The bits must not depend on the rounding mode that other code of the process has set on the thread.
TEST(RunJob, FoldIgnoresTheCallersFloatEnvironment) {
  for (const auto type : {DataType::kF16, DataType::kBF16, DataType::kF32, DataType::kF64}) {
    const Bytes from = hostile_elements(type, 1000, 1);
    const Bytes own = hostile_elements(type, 1000, 2);
    const FoldJob job = fold_job(type, ReduceOp::kAvg, 3, from);
    Bytes expected(from.size());
    Bytes into(from.size());
    run_job(job, expected, from, own);
    std::fesetround(FE_UPWARD);
    run_job(job, into, from, own);
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(into, expected);
  }
}

#if defined(__SSE2__)
TEST(RunJob, FoldKeepsDenormalsThatTheCallerFlushes) {
  const std::vector<float> denormals(100, 0x1p-149F);
  const auto bytes = std::as_bytes(std::span(denormals));
  const Bytes from(bytes.begin(), bytes.end());
  Bytes into(from.size());
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040U);  // flush to zero, denormals are zero: what -ffast-math sets at start-up
  run_job(fold_job(DataType::kF32, ReduceOp::kSum, 0, from), into, from, from);
  __builtin_ia32_ldmxcsr(before);
  EXPECT_EQ(reference::load<float>(into.data(), 99), 0x1p-148F);
}
#endif

}  // namespace
}  // namespace lockstep
