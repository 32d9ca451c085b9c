// A causal slice for people: one line for each moment, with who, what, of what it came, and what it changed.
#pragma once

#include <string>
#include <vector>

#include "sim/explain/history.h"

namespace lockstep::sim {

// Lines, each with its end. Moments are numbered as in the timeline.
std::string listing_of(const History& history, const std::vector<MomentId>& slice);

// "rounds 1 -> 0, calls 2 -> 1"; empty: nothing changed that is shown.
std::string change_of(const History& history, const Moment& moment);

}  // namespace lockstep::sim
