#include "core/kernels/run_job.h"

#include <algorithm>
#include <cstring>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/base/overloaded.h"
#include "core/kernels/checksum.h"
#include "core/kernels/coding.h"
#include "core/kernels/float_environment.h"
#include "core/kernels/reduce.h"

namespace lockstep {
namespace {

// The size of a block. Two blocks, input and result, leave room in a first-level cache of 32 KiB. Measured with f32
// against three passes over the whole memory: equal for a segment of 256 KiB, a quarter faster for 4 MiB. Block sizes
// between 4 and 32 KiB showed no difference beyond the noise.
constexpr std::size_t kBlockBytes = 8192;

JobResult run_fold(const FoldJob& job, std::span<std::byte> into, std::span<const std::byte> from,
                   std::span<const std::byte> own) {
  LOCKSTEP_ASSERT(into.size() == from.size() && own.size() == from.size());
  const bool average = job.op == ReduceOp::kAvg && job.divisor != 0;
  const StandardFloats standard_floats;
  ChecksumStream arrived;
  ChecksumStream result;
  for (std::size_t at = 0; at < from.size(); at += kBlockBytes) {
    const std::size_t size = std::min(kBlockBytes, from.size() - at);
    const auto block = into.subspan(at, size);
    arrived.update(from.subspan(at, size));
    const std::size_t folded = mutant(Mutant::kKernelSkipsTail) ? size / 16 * 16 : size;
    fold(job.type, job.op, block.first(folded), from.subspan(at, folded), own.subspan(at, folded));
    if (average) divide(job.type, block, job.divisor);
    result.update(block);
  }
  return {.intact = arrived.value() == job.expected, .checksum = result.value()};
}

void copy(std::span<std::byte> into, std::span<const std::byte> from) {
  LOCKSTEP_ASSERT(into.size() == from.size());
  if (!from.empty()) std::memmove(into.data(), from.data(), from.size());
}

// The first two contributions are folded to where the result goes, and each other one is folded in there.
JobResult run_fold_all(const FoldAllJob& job, std::span<std::byte> into, std::span<const std::byte> from,
                       std::span<const std::byte> own) {
  LOCKSTEP_ASSERT(into.size() == own.size() && (own.empty() || (!from.empty() && from.size() % own.size() == 0)));
  const std::size_t others = own.empty() ? 0 : from.size() / own.size();
  LOCKSTEP_ASSERT(own.empty() || job.before <= others);
  const bool average = job.op == ReduceOp::kAvg && job.divisor != 0;
  const StandardFloats standard_floats;
  ChecksumStream result;
  for (std::size_t at = 0; at < own.size(); at += kBlockBytes) {
    const std::size_t size = std::min(kBlockBytes, own.size() - at);
    const auto block = into.subspan(at, size);
    const auto part = [&](std::size_t i) {
      if (i == job.before) return own.subspan(at, size);
      return from.subspan((i < job.before ? i : i - 1) * own.size() + at, size);
    };
    std::span<const std::byte> sum = part(0);
    for (std::size_t i = 1; i <= others; ++i) {
      fold(job.type, job.op, block, sum, part(i));
      sum = block;
    }
    if (average) divide(job.type, block, job.divisor);
    result.update(block);
  }
  return {.checksum = result.value()};
}

}  // namespace

JobResult run_job(const JobWork& work, std::span<std::byte> into, std::span<const std::byte> from,
                  std::span<const std::byte> own, std::span<std::byte> residual) {
  return std::visit(overloaded{
                        [&](const HashJob&) { return JobResult{.checksum = checksum(from)}; },
                        [&](const DigestJob&) { return JobResult{.digest = digest(from)}; },
                        [&](const CopyJob&) {
                          copy(into, from);
                          return JobResult{};
                        },
                        [&](const VerifyJob& job) {
                          const std::uint64_t found = checksum(from);
                          return JobResult{.intact = found == job.expected, .checksum = found};
                        },
                        [&](const FoldJob& job) { return run_fold(job, into, from, own); },
                        [&](const FoldAllJob& job) { return run_fold_all(job, into, from, own); },
                        [&](const EncodeJob& job) { return run_encode(job, into, from, residual); },
                        [&](const RecodeJob& job) { return run_recode(job, into, from, own); },
                        [&](const GatherJob& job) { return run_gather(job, into, from, own, residual); },
                        [&](const CheckJob& job) { return run_check(job, from); },
                        [&](const DecodeJob& job) { return run_decode(job, into, from); },
                        [&](const UpdateResidualJob& job) { return run_update_residual(job, from, residual); },
                    },
                    work);
}

}  // namespace lockstep
