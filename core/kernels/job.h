// The per-byte work that core asks a driver to do: one job, one answer. Core names memory; the driver finds it and
// calls the kernels of this folder, at once or on another core.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/data_type.h"
#include "core/base/digest.h"
#include "core/base/ids.h"
#include "core/buffers/buffer_ref.h"
#include "core/kernels/formats/format.h"

namespace lockstep {

// Names one job of one machine; the answer carries it back.
using JobToken = Number<struct JobTokenName, std::uint64_t>;

enum class JobKind : std::uint8_t {
  kHash,    // checksum(from)
  kDigest,  // digest(from)
  kCopy,    // into = from (no overlap)
  kVerify,  // checksum(from) must equal `expected`
  kFold,  // checksum(from) must equal `expected`; into = from op own; divided by `divisor` if that is not 0; checksum(into)

  // Of f32 elements that travel in a wire format: `count` of them.
  kEncode,  // into = encode(weight * (from + residual)); checksum(into)
  kRecode,  // checksum(from) must equal `expected`; into = encode(decode(from) + weight * own); divided by `total` before it is
            // encoded if that is not 0; checksum(into)
  kGather,  // into = encode((decode(from[0]) + decode(from[1]) + ... + weight * (own + residual)) / total), where `from` is any
            // number of encodings, one after the other, which kCheck has looked at; total 0: none; checksum(into)
  kCheck,   // checksum(from) must equal `expected`, and `from` be what an encoder writes
  kDecode,  // into = decode(from)
  kLeave,  // residual = what kEncode of the same left of it: (from + residual) - decode(encode(weight * (from + residual))) / weight
};

struct KernelJob {
  JobToken token;
  JobKind kind = JobKind::kHash;
  DataType type = DataType::kU8;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t divisor = 0;  // kFold: the number of contributors when this fold is the last of an average, else 0
  BufferRef into;        // kCopy, kFold: may be the same memory as `from`, never a part of it; the others: coding.h
  BufferRef from;        // what arrived, or what is to be hashed or copied
  BufferRef own;         // kFold, kRecode, kGather: this peer's contribution
  BufferRef residual{};  // kEncode, kGather: what is added to it, empty: nothing; kLeave: written, too
  std::uint64_t expected = 0;  // kVerify, kFold, kRecode, kCheck: XXH3-64 that the sender stated

  std::uint64_t count = 0;
  WireFormat arrived = WireFormat::kNative;  // kRecode, kGather, kCheck, kDecode: of `from`
  WireFormat departs = WireFormat::kNative;  // kEncode, kRecode, kGather: of `into`; kLeave: of what went
  float weight = 1;                          // kEncode, kRecode, kGather; kLeave: not 0
  float total = 0;                           // kRecode, kGather
};

struct JobResult {
  bool intact = true;          // what arrived has the stated checksum; else `into` is unspecified
  std::uint64_t checksum = 0;  // kHash, kVerify, kCheck: of `from`; kFold, kEncode, kRecode, kGather: of `into`; else 0
  Digest digest{};             // kDigest
  bool malformed = false;  // kRecode, kCheck: it is intact, but no encoding of `count` elements; `into` is unspecified
  std::optional<std::uint64_t>
      not_finite{};  // kEncode, kRecode, kGather: the first element that is not; `into` is unspecified
};

}  // namespace lockstep
