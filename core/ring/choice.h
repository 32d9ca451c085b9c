// Which algorithm a collective takes whose caller leaves the choice (rule 57 of docs/protocol.md): a function of the
// descriptor and of the view alone, so that all ranks of an attempt choose alike.
#pragma once

#include <cstdint>

#include "core/base/data_type.h"
#include "core/ring/schedule.h"
#include "core/wire/message.h"

namespace lockstep::ring {

// Which ranks keep links to each other while no call needs them: neighbours in the ring; where ranks are far from each
// other, all pairs, or, if these were too many, those of a row or a column of the grid (grid.h).
enum class Reach : std::uint8_t { kNeighbours, kGrid, kAll };

// A ring takes n-1 latencies in each phase, the direct algorithm one, a grid two, and all carry the same bytes, except
// in a broadcast or a reduce (goes_straight()). Wire formats and weights have no grid.
// Where ranks are near each other, the ring's longer passes cost less than the memory that the owners of chunks read
// again. Nor does a call go direct that has so many tensors that one rank might have more segments to exchange than it
// may.
constexpr wire::Algorithm choose(const wire::Descriptor& what, std::uint32_t world, Reach reach) {
  constexpr std::uint64_t kMostExchanges = 1U << 19U;
  if (what.algorithm != wire::Algorithm::kAuto) return what.algorithm;
  const std::uint64_t bytes = what.count * size_of(what.type);
  if (reach == Reach::kGrid) {
    const std::uint64_t each = wire::has_root(what.collective) ? world : 4;  // owners take turns, a root does not
    const bool can = what.formats.native() && !what.weighted && what.tensors * each <= kMostExchanges;
    const bool pays = !wire::has_root(what.collective) || pays_in_grid(bytes, world);
    return can && pays ? wire::Algorithm::kGrid : wire::Algorithm::kRing;
  }
  const bool fits = std::uint64_t{what.tensors} * world <= kMostExchanges;
  if (reach == Reach::kNeighbours || !fits) return wire::Algorithm::kRing;
  const bool pays =
      !wire::has_root(what.collective) || goes_straight(bytes, world) || goes_through_owners(bytes, world);
  return pays ? wire::Algorithm::kDirect : wire::Algorithm::kRing;
}

// Whether the ranks of a direct call tell each other what their lines carry, and own by that (rule 58): a call of many
// bytes, whose caller leaves the choice, and whose contributions have the same bits at their owner as on the way. They
// have not with a wire format: the owner's own is not encoded. `least`: bytes for each rank, so many that no segment
// would go before the owner's Ready.
constexpr bool goes_by_rate(const wire::Descriptor& what, std::uint32_t world, wire::Algorithm algorithm,
                            std::uint64_t least) {
  if (what.collective != wire::Collective::kAllReduce || algorithm != wire::Algorithm::kDirect) return false;
  if (what.algorithm != wire::Algorithm::kAuto || what.weighted || !what.formats.native()) return false;
  return world >= 3 && what.count * size_of(what.type) / world >= least;
}

}  // namespace lockstep::ring
