// How many cells the first n runs hit: tells whether more seeds find more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cover/cells.h"

namespace lockstep::sim::cover {

class Curve {
 public:
  Curve() : first_(cell_count(), kNone) {}
  // Runs may come in any order.
  void take(std::uint64_t run, const Hits& hits);
  // Of runs 0 to `runs` - 1.
  [[nodiscard]] std::uint64_t cells(std::uint64_t runs) const;
  // A table: after 1, 2, 5, 10, 20, ... runs and after all of them, the cells and how many runs each new one has taken.
  [[nodiscard]] std::string text(std::uint64_t runs) const;

 private:
  static constexpr std::uint64_t kNone = UINT64_MAX;
  std::vector<std::uint64_t> first_;  // for each cell the first run that hit it
};

}  // namespace lockstep::sim::cover
