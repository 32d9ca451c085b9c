// XXH3-64 and XXH3-128, compiled for one instruction set; all instruction sets compute the same values. The code is
// compiled here with -O3 instead of linked: Debian 12's library reached 18 GB/s where the same SSE2 code compiled here
// reached 24 GB/s (256 KiB, best of 30), and the library dispatches on x86 only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/digest.h"

namespace lockstep {

// The size of a stream's state, which is xxHash's XXH3_state_t.
inline constexpr std::size_t kXxh3StateBytes = 576;
inline constexpr std::size_t kXxh3StateAlignment = 64;

struct Xxh3 {
  std::uint64_t (*hash)(const std::byte* bytes, std::size_t size);
  Digest (*hash128)(const std::byte* bytes, std::size_t size);
  void (*reset)(void* state);
  void (*update)(void* state, const std::byte* bytes, std::size_t size);
  std::uint64_t (*digest)(const void* state);
};

extern const Xxh3 kXxh3Baseline;  // SSE2 or NEON: runs on every machine of this architecture
// x86 only; see CMakeLists.txt.
extern const Xxh3 kXxh3Avx2;
extern const Xxh3 kXxh3Avx512;

}  // namespace lockstep
