// Executes the work of one job on memory that the driver has resolved. Any thread may call it; it has no state.
#pragma once

#include <cstddef>
#include <span>

#include "core/kernels/job.h"

namespace lockstep {

// The spans are the memory of the job (JobMemory), with the same names. A FoldJob reads each byte once, in blocks that
// stay in the first-level cache.
JobResult run_job(const JobWork& work, std::span<std::byte> into, std::span<const std::byte> from,
                  std::span<const std::byte> own, std::span<std::byte> residual = {});

}  // namespace lockstep
