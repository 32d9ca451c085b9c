// Work per byte that core delegates to its driver: each job has one answer. Core names memory; the driver resolves the
// names and calls the kernels of this folder, at once or on another thread.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "core/base/data_type.h"
#include "core/base/digest.h"
#include "core/base/ids.h"
#include "core/buffers/buffer_ref.h"
#include "core/kernels/formats/format.h"

namespace lockstep {

// Identifies a job of one machine; the answer returns the token.
using JobToken = Number<struct JobTokenName, std::uint64_t>;

// ---- bytes ----

struct HashJob {  // checksum(from)
  BufferRef from;
};

struct DigestJob {  // digest(from)
  BufferRef from;
};

struct CopyJob {   // into = from
  BufferRef into;  // the same memory as `from`, or no common byte
  BufferRef from;
};

struct VerifyJob {  // checksum(from) must equal `expected`
  BufferRef from;
  std::uint64_t expected = 0;
  bool again = false;  // of memory of this peer, whose checksum was computed before
};

// ---- elements of any type ----

// checksum(from) must equal `expected`; into = from op own, divided by `divisor` unless it is 0; checksum(into).
struct FoldJob {
  BufferRef into;  // the same memory as `from`, or no common byte
  BufferRef from;  // received
  BufferRef own;   // this peer's contribution
  DataType type = DataType::kU8;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t divisor = 0;  // number of contributors if this fold is the last one of an average, else 0
  std::uint64_t expected = 0;
};

// into = all contributions, folded in order, divided by `divisor` unless it is 0; checksum(into). `from`: the
// consecutive contributions of the others, at least one, each as long as `own`, each of which a VerifyJob has verified.
struct FoldAllJob {
  BufferRef into;  // no common byte with the others
  BufferRef from;
  BufferRef own;             // this peer's contribution
  std::uint32_t before = 0;  // the contributions of `from` that come before it
  DataType type = DataType::kU8;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t divisor = 0;  // number of contributors for an average, else 0
};

// ---- `count` f32 elements in a wire format (coding.h) ----

// into = encode(weight * (from + residual)); checksum(into).
struct EncodeJob {
  BufferRef into;
  BufferRef from;      // this peer's contribution
  BufferRef residual;  // may be empty
  std::uint64_t count = 0;
  WireFormat departs = WireFormat::kNative;
  float weight = 1;
};

// checksum(from) must equal `expected`; into = encode((decode(from) + weight * own) / total); checksum(into).
struct RecodeJob {
  BufferRef into;
  BufferRef from;  // received
  BufferRef own;   // this peer's contribution
  std::uint64_t expected = 0;
  std::uint64_t count = 0;
  WireFormat arrived = WireFormat::kNative;  // of `from`
  WireFormat departs = WireFormat::kNative;  // of `into`
  float weight = 1;
  float total = 0;  // 0: no division
};

// into = encode((decode(from[0]) + decode(from[1]) + ... + weight * (own + residual)) / total); checksum(into).
struct GatherJob {
  BufferRef into;
  BufferRef from;      // consecutive encodings, each of which a CheckJob has verified
  BufferRef own;       // this peer's contribution
  BufferRef residual;  // may be empty
  std::uint64_t count = 0;
  WireFormat arrived = WireFormat::kNative;  // of each encoding in `from`
  WireFormat departs = WireFormat::kNative;  // of `into`
  float weight = 1;
  float total = 0;  // 0: no division
};

// checksum(from) must equal `expected`, and `from` must be the output of an encoder.
struct CheckJob {
  BufferRef from;
  std::uint64_t expected = 0;
  std::uint64_t count = 0;
  WireFormat arrived = WireFormat::kNative;
};

struct DecodeJob {  // into = decode(from)
  BufferRef into;
  BufferRef from;
  std::uint64_t count = 0;
  WireFormat arrived = WireFormat::kNative;
};

// residual = (from + residual) - decode(encode(weight * (from + residual))) / weight, the error of the same EncodeJob.
struct UpdateResidualJob {
  BufferRef from;
  BufferRef residual;
  std::uint64_t count = 0;
  WireFormat departs = WireFormat::kNative;
  float weight = 1;  // not 0
};

using JobWork = std::variant<HashJob, DigestJob, CopyJob, VerifyJob, FoldJob, EncodeJob, RecodeJob, GatherJob, CheckJob,
                             DecodeJob, UpdateResidualJob, FoldAllJob>;

struct KernelJob {
  JobToken token;
  JobWork work;
};

// The memory that a job reads and writes. What its kind does not have is empty.
struct JobMemory {
  BufferRef into{};
  BufferRef from{};
  BufferRef own{};
  BufferRef residual{};

  [[nodiscard]] constexpr bool uses(BufferId buffer) const {
    return into.id == buffer || from.id == buffer || own.id == buffer || residual.id == buffer;
  }
};

constexpr JobMemory memory_of(const JobWork& work) {
  return std::visit(
      [](const auto& one) {
        JobMemory memory{.from = one.from};
        if constexpr (requires { one.into; }) memory.into = one.into;
        if constexpr (requires { one.own; }) memory.own = one.own;
        if constexpr (requires { one.residual; }) memory.residual = one.residual;
        return memory;
      },
      work);
}

struct JobResult {
  bool intact = true;  // the received bytes have the stated checksum; otherwise `into` is unspecified
  // HashJob, VerifyJob, CheckJob: of `from`; FoldJob, FoldAllJob, EncodeJob, RecodeJob, GatherJob: of `into`; else 0
  std::uint64_t checksum = 0;
  Digest digest{};  // DigestJob
  // RecodeJob, CheckJob: `from` is intact, but not an encoding of `count` elements; `into` is unspecified.
  // GatherJob, DecodeJob: `from` is no encoding any more, although it has been verified; `into` is unspecified.
  bool malformed = false;
  // EncodeJob, RecodeJob, GatherJob: the first element that is not finite; `into` is unspecified
  std::optional<std::uint64_t> not_finite{};
};

}  // namespace lockstep
