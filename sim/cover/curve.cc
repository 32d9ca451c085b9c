#include "sim/cover/curve.h"

#include <algorithm>

#include <fmt/core.h>

namespace lockstep::sim::cover {

void Curve::take(std::uint64_t run, const Hits& hits) {
  for (Cell cell = 0; cell < first_.size(); ++cell) {
    if (hits.has(cell)) first_[cell] = std::min(first_[cell], run);
  }
}

std::uint64_t Curve::cells(std::uint64_t runs) const {
  return static_cast<std::uint64_t>(
      std::count_if(first_.begin(), first_.end(), [&](std::uint64_t first) { return first < runs; }));
}

std::string Curve::text(std::uint64_t runs) const {
  std::string out = fmt::format("{:>9} {:>7} {:>7} {:>18}\n", "runs", "cells", "new", "runs for each new");
  std::uint64_t before = 0;
  std::uint64_t cells_before = 0;
  const auto row = [&](std::uint64_t n) {
    const std::uint64_t now = cells(n);
    const std::uint64_t fresh = now - cells_before;
    const std::string each =
        fresh == 0 ? "-" : fmt::format("{:.1f}", static_cast<double>(n - before) / static_cast<double>(fresh));
    out += fmt::format("{:>9} {:>7} {:>7} {:>18}\n", n, now, fresh, each);
    before = n;
    cells_before = now;
  };
  for (std::uint64_t decade = 1; decade < runs; decade *= 10) {
    for (const std::uint64_t step : {1U, 2U, 5U}) {
      if (decade * step < runs) row(decade * step);
    }
  }
  row(runs);
  return out;
}

}  // namespace lockstep::sim::cover
