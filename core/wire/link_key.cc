#include "core/wire/link_key.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/digest.h"
#include "core/kernels/checksum.h"

namespace lockstep::wire {

LinkKey prefetcher_key(const LinkKey& run, PeerId prefetcher) {
  std::array<std::byte, 4 * sizeof(std::uint64_t)> bytes{};  // equal on every machine
  std::size_t at = 0;
  for (const std::uint64_t word : {run.high, run.low, prefetcher.high, prefetcher.low}) {
    for (unsigned shift = 0; shift < 64; shift += 8) bytes[at++] = static_cast<std::byte>(word >> shift & 0xffU);
  }
  const Digest key = digest(bytes);
  return {key.high, key.low};
}

}  // namespace lockstep::wire
