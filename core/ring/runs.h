// Neighbouring small tensors of a call travel as one: a message costs much more than the bytes of a small tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/wire/message.h"

namespace lockstep::ring {

// The tensors [begin, end) of a call. More than one: they travel as one tensor of their elements, in this order.
struct Run {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::uint64_t count = 0;  // elements of all of them

  [[nodiscard]] bool joins() const { return end - begin > 1; }
  bool operator==(const Run&) const = default;
};

// Divides the tensors of a call into runs; equal on every peer, because the descriptor holds all arguments. A run joins
// neighbours of at most kWholeBytes each. Only an all-reduce that does not encode, a broadcast and a reduce join.
// `encodes`: is_encoded() of the call.
std::vector<Run> runs_of(wire::Collective collective, bool encodes, std::span<const std::uint64_t> counts,
                         std::size_t element_bytes);

}  // namespace lockstep::ring
