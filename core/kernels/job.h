// Work per byte that core delegates to its driver: each job has one answer. Core names memory; the driver resolves the
// names and calls the kernels of this folder, at once or on another thread.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/data_type.h"
#include "core/base/digest.h"
#include "core/base/ids.h"
#include "core/buffers/buffer_ref.h"
#include "core/kernels/formats/format.h"

namespace lockstep {

// Identifies a job of one machine; the answer returns the token.
using JobToken = Number<struct JobTokenName, std::uint64_t>;

enum class JobKind : std::uint8_t {
  kHash,    // checksum(from)
  kDigest,  // digest(from)
  kCopy,    // into = from (no overlap)
  kVerify,  // checksum(from) must equal `expected`
  // checksum(from) must equal `expected`; into = from op own, divided by `divisor` unless it is 0; checksum(into)
  kFold,

  // Jobs on `count` f32 elements in a wire format.
  kEncode,  // into = encode(weight * (from + residual)); checksum(into)
  // checksum(from) must equal `expected`; into = encode((decode(from) + weight * own) / total); a total of 0 skips the
  // division; checksum(into)
  kRecode,
  // into = encode((decode(from[0]) + decode(from[1]) + ... + weight * (own + residual)) / total); `from` is any number
  // of consecutive encodings that kCheck has verified; a total of 0 skips the division; checksum(into)
  kGather,
  kCheck,   // checksum(from) must equal `expected`, and `from` must be the output of an encoder
  kDecode,  // into = decode(from)
  // residual = (from + residual) - decode(encode(weight * (from + residual))) / weight, the error of the same kEncode
  kLeave,
};

struct KernelJob {
  JobToken token;
  JobKind kind = JobKind::kHash;
  DataType type = DataType::kU8;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t divisor = 0;   // kFold: the number of contributors if this fold is the last one of an average, else 0
  BufferRef into;              // kCopy, kFold: the same memory as `from`, or no common byte; other kinds: see coding.h
  BufferRef from;              // the received bytes, or the bytes to hash or copy
  BufferRef own;               // kFold, kRecode, kGather: this peer's contribution
  BufferRef residual{};        // kEncode, kGather: added to the contribution, may be empty; kLeave: also written
  std::uint64_t expected = 0;  // kVerify, kFold, kRecode, kCheck: the XXH3-64 stated by the sender

  std::uint64_t count = 0;
  WireFormat arrived = WireFormat::kNative;  // kRecode, kGather, kCheck, kDecode: format of `from`
  // kEncode, kRecode, kGather: format of `into`; kLeave: format of the encoded contribution
  WireFormat departs = WireFormat::kNative;
  float weight = 1;  // kEncode, kRecode, kGather; kLeave: must not be 0
  float total = 0;   // kRecode, kGather
};

struct JobResult {
  bool intact = true;          // the received bytes have the stated checksum; otherwise `into` is unspecified
  std::uint64_t checksum = 0;  // kHash, kVerify, kCheck: of `from`; kFold, kEncode, kRecode, kGather: of `into`; else 0
  Digest digest{};             // kDigest
  // kRecode, kCheck: `from` is intact, but not an encoding of `count` elements; `into` is unspecified
  bool malformed = false;
  // kEncode, kRecode, kGather: the first element that is not finite; `into` is unspecified
  std::optional<std::uint64_t> not_finite{};
};

}  // namespace lockstep
