// Jobs on f32 elements that travel in a wire format (core/kernels/formats). Each job reads every byte once, in blocks
// that stay in the first-level cache. The spans are those of run_job().
#pragma once

#include <cstddef>
#include <span>

#include "core/kernels/job.h"

namespace lockstep {

JobResult run_encode(const EncodeJob& job, std::span<std::byte> into, std::span<const std::byte> from,
                     std::span<const std::byte> residual);

// `into` may overlap `from` if it begins no later and ends no later.
JobResult run_recode(const RecodeJob& job, std::span<std::byte> into, std::span<const std::byte> from,
                     std::span<const std::byte> own);

// `into` overlaps nothing.
JobResult run_gather(const GatherJob& job, std::span<std::byte> into, std::span<const std::byte> from,
                     std::span<const std::byte> own, std::span<const std::byte> residual);

JobResult run_check(const CheckJob& job, std::span<const std::byte> from);

// `from` may be where `into` begins.
JobResult run_decode(const DecodeJob& job, std::span<std::byte> into, std::span<const std::byte> from);

JobResult run_update_residual(const UpdateResidualJob& job, std::span<const std::byte> from,
                              std::span<std::byte> residual);

}  // namespace lockstep
