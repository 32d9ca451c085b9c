// The algorithms that can carry a collective: the one that the library chooses (rules 57 and 58 of docs/protocol.md),
// the reason, and the least time of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/peer/cohort.h"
#include "sim/predict/bound.h"

namespace lockstep::sim {

// The work among hosts 1, 2, ... in the order of ranks, with the members' answers to rules 14 and 58. Stripes and the
// configured segment size are the caller's to fill in.
Setting setting_of(const Work& work, const peer::Cohort::Roster& roster, std::uint32_t by_rate_bytes);

// One bound for each algorithm that a caller may ask for. A grid of one row is the direct algorithm, and is left out.
// Empty: one member, no bytes, or a collective that has no choice.
std::vector<Bound> candidates(flow::Topology& topology, const Setting& setting);

// The algorithm of the work, by the library's own function; kAuto for a collective that has no choice.
wire::Algorithm choice_of(const Work& work, const peer::Cohort::Roster& roster);

// Why members with this roster took this algorithm, in words; empty for kAuto.
std::string reason_of(const Work& work, wire::Algorithm chosen, const peer::Cohort::Roster& roster);

}  // namespace lockstep::sim
