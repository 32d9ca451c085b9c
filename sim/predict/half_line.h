// A straggler: a host whose own line carries half of what it does.
#pragma once

#include <cstdint>

#include "sim/plan/plan.h"

namespace lockstep::sim {

// The same plan, with half the rates of this host: half of what it can send and receive, or, if these have no limit,
// half of what the ways to and from it carry. A line that the host shares with others keeps its rate.
void halve_line(Plan& plan, std::uint32_t host);

}  // namespace lockstep::sim
