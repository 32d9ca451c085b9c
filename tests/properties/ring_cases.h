// Cases for the laws of rings.
#pragma once

#include <cstdint>
#include <span>

#include <rapidcheck.h>

#include "core/ring/grid.h"
#include "core/ring/schedule.h"

namespace lockstep::test {

inline ring::Segmenting any_segmenting(std::uint32_t configured, Formats formats = {}) {
  return {configured, *rc::gen::element(ring::Distance::kFar, ring::Distance::kNear, ring::Distance::kSameHost),
          formats};
}

// Calls what(owner, first element among the elements of all tensors, size) for each chunk of an all-reduce.
template <typename What>
void each_chunk(std::span<const std::uint64_t> counts, std::uint32_t element_bytes, std::uint32_t world,
                std::uint32_t segment_bytes, What what, wire::Algorithm algorithm = wire::Algorithm::kRing) {
  const ring::Grid grid = ring::grid_of(algorithm, world);
  std::uint64_t base = 0;
  for (std::uint32_t t = 0; t < counts.size(); ++t) {
    const bool whole = ring::goes_whole(wire::Collective::kAllReduce, counts[t], element_bytes, segment_bytes);
    for (std::uint32_t number = 0; number < grid.owners(); ++number) {
      if (whole && number != t % grid.owners()) continue;
      const ring::Chunk chunk = whole ? ring::Chunk{0, counts[t]} : ring::chunk_of(number, grid.owners(), counts[t]);
      what(grid.owner(number), base + chunk.begin, chunk.size());
    }
    base += counts[t];
  }
}

}  // namespace lockstep::test
