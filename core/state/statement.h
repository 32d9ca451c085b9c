// What the caller of a sync says of its state, beside the memory of the tensors.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "core/state/election.h"
#include "core/state/manifest.h"

namespace lockstep::state {

struct Statement {
  Manifest manifest;
  std::vector<std::uint64_t> values;  // the 64 bits of each
  std::uint64_t revision = 0;
  Strategy strategy = Strategy::kPopular;
  std::set<std::uint32_t>
      unchanged;       // tensors that hold what they held when the last sync of this tag succeeded: not digested again
  bool blank = false;  // what lies in memory is no state: it is not digested, and all of the elected one is taken over
  bool restored = false;  // it is a whole state again, although the last sync of this tag left a part of one there
  bool staged = false;    // pieces land beside the state, and are copied into it once the round has committed
};

// How much memory that takes: as much as all tensors that are compared; of a page that is never written to, none.
std::uint64_t staging_bytes(const Manifest& manifest);

}  // namespace lockstep::state
