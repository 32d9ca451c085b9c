// What the peers of chaos.cc all-reduce: integers and floats drawn by peer, step and place, so that everybody can tell
// what must come out of whose contributions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/communicator.h"

namespace lockstep::testing {

// One gradient: its shape follows from the step, so that all peers agree on it.
struct Gradient {
  DataType type = DataType::kU8;
  ReduceOp op = ReduceOp::kSum;
  std::uint64_t count = 0;
  Tag tag;
  bool in_place = false;  // everybody for himself
  std::vector<std::byte> input;
  std::vector<std::byte> output;
  transport::Work work;
};

// What this peer contributes at a place, as far as the type goes. Floats: anything, NaN too.
std::uint64_t element_bits(PeerId peer, std::uint64_t step, Tag tag, std::uint64_t index);

// Whether the result is the fold of exactly the contributors' inputs, at places all over it. Integers, whose order is
// free; of floats only peers know whether they agree.
bool is_exact(const Gradient& gradient, std::uint64_t step, const std::vector<PeerId>& contributors);

}  // namespace lockstep::testing
