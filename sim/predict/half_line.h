// A straggler: a host whose own line carries half of what it does.
#pragma once

#include <cstdint>

#include "sim/plan.h"

namespace lockstep::sim {

// The same plan; what this host can send and receive is half of it, or, if nothing limits that, what the ways to and from it carry.
// A line that it shares with others stays as it is: that is theirs, too.
void halve_line(Plan& plan, std::uint32_t host);

}  // namespace lockstep::sim
