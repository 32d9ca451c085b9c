// XXH3-64 and XXH3-128 with seed 0, as xxHash's specification defines them: equal values on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/digest.h"
#include "core/kernels/xxh3.h"

namespace lockstep {

std::uint64_t checksum(std::span<const std::byte> bytes);
Digest digest(std::span<const std::byte> bytes);

// Computes the same value for bytes that arrive in parts, whatever their boundaries.
class ChecksumStream {
 public:
  ChecksumStream();
  void update(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t value() const;

 private:
  alignas(kXxh3StateAlignment) std::byte state_[kXxh3StateBytes] = {};
};

}  // namespace lockstep
