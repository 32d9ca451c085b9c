// What the lines of a topology allow an all-reduce of f32 among its peers, who join in the order of their names: by the
// bounds of `lockstep sim predict` (sim/predict/bound.h).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/predict/bound.h"
#include "tests/lab/wan/topology.h"

namespace lockstep::wan {

// One for each algorithm, the ring first. Lines carry full packets, with 52 bytes of IP and TCP in each. Losses and
// windows hold no stream back. Empty: one peer.
std::vector<sim::Bound> limits(const Topology& topology, std::uint64_t bytes);

}  // namespace lockstep::wan
