// The per-byte work that core asks a driver to do: one job, one answer. Core names memory; the driver finds it and calls
// the kernels of this folder, at once or on another core.
#pragma once

#include <cstdint>

#include "core/base/data_type.h"
#include "core/base/digest.h"
#include "core/base/ids.h"
#include "core/buffers/buffer_ref.h"

namespace lockstep {

// Names one job of one machine; the answer carries it back.
using JobToken = Number<struct JobTokenName, std::uint64_t>;

enum class JobKind : std::uint8_t {
  kHash,    // checksum(from)
  kDigest,  // digest(from)
  kCopy,    // into = from (no overlap)
  kVerify,  // checksum(from) must equal `expected`
  kFold,  // checksum(from) must equal `expected`; into = from op own; divided by `divisor` if that is not 0; checksum(into)
};

struct KernelJob {
  JobToken token;
  JobKind kind = JobKind::kHash;
  DataType type = DataType::kU8;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t divisor = 0;   // kFold: the number of contributors when this fold is the last of an average, else 0
  BufferRef into;              // kCopy, kFold: may be the same memory as `from`, never a part of it
  BufferRef from;              // what arrived, or what is to be hashed or copied
  BufferRef own;               // kFold: this peer's contribution
  std::uint64_t expected = 0;  // kVerify, kFold: XXH3-64 that the sender stated
};

struct JobResult {
  bool intact = true;          // kVerify, kFold: what arrived has the stated checksum; else `into` is unspecified
  std::uint64_t checksum = 0;  // kHash, kVerify: of `from`; kFold: of `into` (the final bytes); else 0
  Digest digest{};             // kDigest
};

}  // namespace lockstep
