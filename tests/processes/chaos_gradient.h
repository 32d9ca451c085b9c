// The data of chaos.cc's all-reduces: integers and floats determined by peer, step and index, so that every process can
// compute the right result for given contributors.
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
  bool in_place = false;  // each peer decides for itself
  std::vector<std::byte> input;
  std::vector<std::byte> output;
  transport::Work work;
};

// This peer's contribution at an index, converted to the type. Floats may be anything, including NaN.
std::uint64_t element_bits(PeerId peer, std::uint64_t step, Tag tag, std::uint64_t index);

// Whether the result is the fold of exactly the contributors' inputs, at sampled indices. Integers only, whose order of
// folding does not matter; floats are compared between peers.
bool is_exact(const Gradient& gradient, std::uint64_t step, const std::vector<PeerId>& contributors);

}  // namespace lockstep::testing
