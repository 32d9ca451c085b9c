// The time that lines need at least to carry given bytes, in closed form: no order of sending is faster.
#pragma once

#include <cstdint>
#include <span>

#include "sim/flow/topology.h"

namespace lockstep::sim::flow {

// From one host to another, `bytes` in all.
struct Transfer {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t bytes = 0;
};

struct LinesBound {
  std::int64_t ns = 0;             // until the busiest line, or stream, has carried its part
  Resource busiest = kNoResource;  // kNoResource: the streams of one transfer
};

// The time for so many bytes at this rate.
std::int64_t time_of(std::uint64_t bytes, std::uint64_t bytes_per_s);

// The rate of one transfer over so many streams, if no line limits them.
std::uint64_t rate_alone(const Route& route, std::uint32_t stripes);

// Each transfer has so many streams.
LinesBound lines_bound(Topology& topology, std::span<const Transfer> transfers, std::uint32_t stripes);

}  // namespace lockstep::sim::flow
