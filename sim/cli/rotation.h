// Parts of all planted bugs that take about as long: a part a day, and after as many days every bug was hunted.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cli/hunt.h"

namespace lockstep::sim {

// Seeds that the searches of a hunt need, by the recorded rate; without one, half of the budget for each search.
double expected_seeds(const Quarry& quarry);

// For each cost its part, 0..parts-1: the largest first, each into the part that is the lightest so far.
std::vector<std::uint32_t> balanced_parts(const std::vector<double>& costs, std::uint32_t parts);

}  // namespace lockstep::sim
