// Executes one KernelJob on memory that the driver has found. Any thread may call it; it keeps nothing.
#pragma once

#include <cstddef>
#include <span>

#include "core/kernels/job.h"

namespace lockstep {

// The spans are what the job's references of the same names stand for; those that its kind does not use may be empty.
// kFold fetches each byte once, in blocks that stay in the first-level cache.
JobResult run_job(const KernelJob& job, std::span<std::byte> into, std::span<const std::byte> from,
                  std::span<const std::byte> own, std::span<std::byte> residual = {});

}  // namespace lockstep
