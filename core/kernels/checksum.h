// XXH3-64 with seed 0, as xxHash's specification defines it: the same value on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/kernels/xxh3.h"

namespace lockstep {

std::uint64_t checksum(std::span<const std::byte> bytes);

// The same value for bytes that come piece by piece; where the cuts are makes no difference.
class ChecksumStream {
 public:
  ChecksumStream();
  void update(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t value() const;

 private:
  alignas(kXxh3StateAlignment) std::byte state_[kXxh3StateBytes] = {};
};

}  // namespace lockstep
