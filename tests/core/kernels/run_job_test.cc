#include "core/kernels/run_job.h"

#include <algorithm>
#include <cfenv>
#include <set>
#include <span>
#include <vector>

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

// Contributions of several ranks, one after another, and that of this rank.
struct Contributions {
  Contributions(DataType its_type, std::size_t count, std::size_t others)
      : type(its_type), from(test::hostile_elements(type, count * others, 3)), own(hostile_elements(type, count, 4)) {}
  [[nodiscard]] std::span<const std::byte> part(std::size_t at) const {
    return std::span(from).subspan(at * own.size(), own.size());
  }
  [[nodiscard]] std::uint32_t others() const { return static_cast<std::uint32_t>(from.size() / own.size()); }
  // As the ring folds them: one job for each hop, of which the last divides. `before`: others that come before this
  // rank.
  [[nodiscard]] Bytes chain(ReduceOp op, std::uint32_t divisor, std::uint32_t before) const {
    const auto contribution = [&](std::size_t at) {
      if (at == before) return std::span<const std::byte>(own);
      return part(at < before ? at : at - 1);
    };
    Bytes sum(contribution(0).begin(), contribution(0).end());
    for (std::size_t at = 1; at <= others(); ++at) {
      const FoldJob job = fold_job(type, op, at == others() ? divisor : 0, sum);
      EXPECT_TRUE(run_job(job, sum, Bytes(sum), contribution(at)).intact);
    }
    return sum;
  }

  DataType type;
  Bytes from;
  Bytes own;
};

FoldAllJob fold_all_job(DataType type, ReduceOp op, std::uint32_t divisor, std::uint32_t before) {
  FoldAllJob job;
  job.before = before;
  job.type = type;
  job.op = op;
  job.divisor = divisor;
  return job;
}

// Sizes around the block size of run_job, and odd numbers of elements.
TEST(RunJob, FoldAllIsAChainOfFolds) {
  for (const auto type : test::kAllTypes) {
    for (const auto op : test::ops_of(type)) {
      for (const std::size_t bytes : {8U, 8184U, 8192U, 8200U, 20'000U}) {
        for (const std::size_t others : {1U, 2U, 5U}) {
          const std::size_t count = bytes / size_of(type) - (bytes > 8 ? 1 : 0);
          const Contributions all(type, count, others);
          for (const std::uint32_t divisor : {0U, static_cast<std::uint32_t>(others + 1)}) {
            for (const std::uint32_t before : std::set<std::uint32_t>{0, all.others() / 2, all.others()}) {
              Bytes into(all.own.size());
              const JobResult result = run_job(fold_all_job(type, op, divisor, before), into, all.from, all.own);
              EXPECT_TRUE(result.intact);
              EXPECT_EQ(result.checksum, checksum(into));
              ASSERT_TRUE(into == all.chain(op, divisor, before)) << name_of(type) << ' ' << name_of(op) << ' ' << bytes
                                                                  << ' ' << others << ' ' << divisor << ' ' << before;
            }
          }
        }
      }
    }
  }
}

TEST(RunJob, FoldAllOfNothingIsTheChecksumOfNothing) {
  const JobResult result = run_job(fold_all_job(DataType::kF32, ReduceOp::kSum, 0, 0), {}, {}, {});
  EXPECT_TRUE(result.intact);
  EXPECT_EQ(result.checksum, checksum({}));
}

TEST(RunJob, FoldAllDividesAverageOnceAndNothingElse) {
  const std::vector<std::int32_t> values = {10, 20, 33};
  const auto bytes = std::as_bytes(std::span(values));
  const auto fold_all = [&](ReduceOp op, std::uint32_t divisor) {
    std::int32_t result = 0;
    run_job(fold_all_job(DataType::kI32, op, divisor, 2), std::as_writable_bytes(std::span(&result, 1)), bytes.first(8),
            bytes.subspan(8));
    return result;
  };
  EXPECT_EQ(fold_all(ReduceOp::kAvg, 3), 21);
  EXPECT_EQ(fold_all(ReduceOp::kAvg, 0), 63);
  EXPECT_EQ(fold_all(ReduceOp::kSum, 3), 63);
}

// Buffers of a caller begin anywhere.
TEST(RunJob, FoldAllTakesBuffersOfAnyAlignment) {
  for (const auto type : {DataType::kU16, DataType::kF16, DataType::kF32, DataType::kI64, DataType::kF64}) {
    const Contributions all(type, 2501, 3);
    const Bytes expected = all.chain(ReduceOp::kSum, 0, 3);
    for (const std::size_t shift : {1U, 2U, 3U, 5U, 7U}) {
      const auto shifted = [&](const Bytes& bytes) {
        Bytes moved(shift);
        moved.insert(moved.end(), bytes.begin(), bytes.end());
        return moved;
      };
      const Bytes from = shifted(all.from);
      const Bytes own = shifted(all.own);
      Bytes into(all.own.size() + 2 * shift, std::byte{0x5a});
      run_job(fold_all_job(type, ReduceOp::kSum, 0, 3), std::span(into).subspan(shift, all.own.size()),
              std::span(from).subspan(shift), std::span(own).subspan(shift));
      EXPECT_TRUE(std::ranges::equal(std::span(into).subspan(shift, all.own.size()), expected)) << name_of(type);
      const auto untouched = [](std::byte byte) { return byte == std::byte{0x5a}; };
      EXPECT_TRUE(std::ranges::all_of(std::span(into).first(shift), untouched)) << "bytes before the result";
      EXPECT_TRUE(std::ranges::all_of(std::span(into).last(shift), untouched)) << "bytes after the result";
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

TEST(RunJob, FoldAllIgnoresTheCallersFloatEnvironment) {
  for (const auto type : {DataType::kF16, DataType::kBF16, DataType::kF32, DataType::kF64}) {
    const Contributions all(type, 1000, 2);
    const Bytes expected = all.chain(ReduceOp::kAvg, 3, 2);
    Bytes into(all.own.size());
    std::fesetround(FE_UPWARD);
    run_job(fold_all_job(type, ReduceOp::kAvg, 3, 2), into, all.from, all.own);
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
