// XXH3 for the instruction set that the including source is compiled for. Everything in this file has internal linkage.
// Otherwise the linker could keep one copy and run it on machines that do not have its instructions.
#pragma once

#include "core/kernels/xxh3.h"

#define XXH_INLINE_ALL
#define XXH_PREFETCH_DIST 4096  // one page ahead: hardware prefetching stops at the end of a page
#include <xxhash.h>

// NOLINTBEGIN(google-build-namespaces,misc-definitions-in-headers)
namespace lockstep {
namespace {

static_assert(sizeof(XXH3_state_t) <= kXxh3StateBytes && alignof(XXH3_state_t) <= kXxh3StateAlignment);

constexpr Xxh3 kXxh3Here = {
    .hash = [](const std::byte* bytes, std::size_t size) -> std::uint64_t { return XXH3_64bits(bytes, size); },
    .hash128 = [](const std::byte* bytes, std::size_t size) -> Digest {
      const XXH128_hash_t hash = XXH3_128bits(bytes, size);
      return {hash.high64, hash.low64};
    },
    .reset = [](void* state) { XXH3_64bits_reset(static_cast<XXH3_state_t*>(state)); },
    .update = [](void* state, const std::byte* bytes,
                 std::size_t size) { XXH3_64bits_update(static_cast<XXH3_state_t*>(state), bytes, size); },
    .digest = [](const void* state) -> std::uint64_t {
      return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state));
    },
};

}  // namespace
}  // namespace lockstep
// NOLINTEND(google-build-namespaces,misc-definitions-in-headers)
