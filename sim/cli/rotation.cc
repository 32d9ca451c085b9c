#include "sim/cli/rotation.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace lockstep::sim {

double expected_seeds(const Quarry& quarry) {
  const auto budget = static_cast<double>(quarry.budget);
  const bool known = quarry.recorded && quarry.recorded->found > 0;
  const double each = known ? std::min(budget, 1 / quarry.recorded->rate()) : budget / 2;
  return quarry.searches * each;
}

std::vector<std::uint32_t> balanced_parts(const std::vector<double>& costs, std::uint32_t parts) {
  std::vector<std::size_t> largest_first(costs.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
  std::vector<double> weights(parts, 0);
  std::vector<std::uint32_t> part_of(costs.size());
  for (const std::size_t item : largest_first) {
    const auto lightest = std::min_element(weights.begin(), weights.end());
    *lightest += costs[item];
    part_of[item] = static_cast<std::uint32_t>(lightest - weights.begin());
  }
  return part_of;
}

}  // namespace lockstep::sim
