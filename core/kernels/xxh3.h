// XXH3-64 and XXH3-128 as they are compiled for one instruction set; the values are the same for all. Compiled here, at
// -O3, rather than linked: Debian 12's library gave 18 GB/s where the same code for SSE2 gave 24 (256 KiB, best of 30),
// and it chooses on x86 only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/digest.h"

namespace lockstep {

// Where a stream's state lies: what xxHash calls XXH3_state_t.
inline constexpr std::size_t kXxh3StateBytes = 576;
inline constexpr std::size_t kXxh3StateAlignment = 64;

struct Xxh3 {
  std::uint64_t (*hash)(const std::byte* bytes, std::size_t size);
  Digest (*hash128)(const std::byte* bytes, std::size_t size);
  void (*reset)(void* state);
  void (*update)(void* state, const std::byte* bytes, std::size_t size);
  std::uint64_t (*digest)(const void* state);
};

extern const Xxh3 kXxh3Baseline;  // what every machine of this architecture can run: SSE2, NEON
// x86 only; see CMakeLists.txt.
extern const Xxh3 kXxh3Avx2;
extern const Xxh3 kXxh3Avx512;

}  // namespace lockstep
