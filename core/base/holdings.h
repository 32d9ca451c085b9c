// Counts of what a machine holds in memory. They prove promise S11: memory does not grow with the length of a run.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

struct Holdings {
  std::size_t entries = 0;  // number of entries in all containers, at any depth
  std::size_t bytes = 0;    // bytes of memory, including memory kept for reuse

  // Quantities that explain `entries`. Invariant: two machines with equal quantities hold equally many entries.
  std::size_t members = 0;  // members of the view
  std::size_t ring = 0;     // members of this peer's own group
  std::size_t links = 0;
  std::size_t stripes = 0;  // stripes of these links, connected or not
  std::size_t streams = 0;
  std::size_t waiting = 0;    // coordinator: peers that wait for admission
  std::size_t strangers = 0;  // coordinator: streams whose peer is not known
  std::size_t broken = 0;     // coordinator: pairs of peers that cannot reach each other
  bool direct = false;        // peer: links to all members of the group

  // Entries that depend on what the program has done. Each kind has a limit of its own.
  std::size_t tags = 0;     // tags launched in a cohort, and tags of states
  std::size_t digests = 0;  // digests of states
  // Outcomes of rounds that this peer has not launched, rounds retained for leavers, and members that called admit.
  std::size_t awaited = 0;
  // Unused slots kept for reuse; hosts connected to the port or expected there; troubles that a status names.
  std::size_t spare = 0;
};

}  // namespace lockstep
