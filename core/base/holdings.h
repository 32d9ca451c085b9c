// What a machine holds, counted: for the promise that a long life costs no more than a short one (S11).
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

struct Holdings {
  std::size_t entries = 0;  // of all containers, at any depth
  std::size_t bytes = 0;    // of memory, with what is kept to be used again

  // What the run accounts for, so that two machines for which all of these are equal hold equally many entries.
  std::size_t members = 0;  // of the view
  std::size_t ring = 0;     // members of the own group
  std::size_t links = 0;
  std::size_t stripes = 0;  // of these links, with a stream or without one
  std::size_t streams = 0;
  std::size_t waiting = 0;    // a coordinator: peers that wait for their admission
  std::size_t strangers = 0;  // a coordinator: streams of nobody that it knows
  std::size_t broken = 0;     // a coordinator: pairs that cannot reach each other
  bool direct = false;        // a peer: links to all of the group

  // Entries that depend on what the program has done, and have limits of their own.
  std::size_t tags = 0;     // launched in a cohort, and of states
  std::size_t digests = 0;  // of states
  // Outcomes of rounds that this peer has not launched, rounds that are kept for leavers, and members that have called
  // admit.
  std::size_t awaited = 0;
  std::size_t spare = 0;  // places that were used once, and are kept for use; hosts at the port, and expected there
};

}  // namespace lockstep
