// What the caller of a sync states about its state, apart from the memory of the tensors.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "core/base/ids.h"
#include "core/state/election.h"
#include "core/state/manifest.h"

namespace lockstep::state {

struct Statement {
  Manifest manifest;
  std::vector<std::uint64_t> values;  // 64 bits each
  std::uint64_t revision = 0;
  Lineage lineage;  // nothing: the state has never been agreed on
  Strategy strategy = Strategy::kPopular;
  // tensors that have not changed since the last successful sync of this tag: not digested again
  std::set<std::uint32_t> unchanged;
  bool blank = false;     // memory holds no state: nothing is digested, and the whole elected state is fetched
  bool restored = false;  // memory holds a whole state again, although the last sync of this tag left a partial one
  bool staged = false;    // pieces land beside the state and are copied into it after the round has committed
};

// The bytes of staging memory: the size of all compared tensors. Pages that are never written use no physical memory.
std::uint64_t staging_bytes(const Manifest& manifest);

}  // namespace lockstep::state
