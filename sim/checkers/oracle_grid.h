// The order of the sums in a grid, written a second time from rule 59 of docs/protocol.md. This file lists ranks, where
// the core computes places.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/checkers/oracle_chunks.h"

namespace lockstep::sim::oracle {

using Ranks = std::vector<std::uint64_t>;

// As many rows as the whole root of the number of ranks. The first rows may be one rank longer.
inline std::vector<Ranks> rows_of(std::uint64_t world) {
  std::uint64_t rows = 0;
  while ((rows + 1) * (rows + 1) <= world) ++rows;
  std::vector<Ranks> grid(rows);
  std::uint64_t rank = 0;
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (const Elements part = chunk_of(row, rows, world); grid[row].size() < part.size(); ++rank)
      grid[row].push_back(rank);
  }
  return grid;
}

// The ranks that own chunks: those of the columns that all rows have.
inline Ranks owners_in_grid(std::uint64_t world) {
  Ranks owners;
  const std::vector<Ranks> grid = rows_of(world);
  for (const Ranks& row : grid)
    owners.insert(owners.end(), row.begin(), row.begin() + static_cast<long>(grid.back().size()));
  return owners;
}

// A row from the rank behind `place` on, around to that rank itself.
inline Ranks row_to(const Ranks& row, std::uint64_t place) {
  Ranks order;
  for (std::uint64_t i = 1; i <= row.size(); ++i) order.push_back(row[(place + i) % row.size()]);
  return order;
}

struct Place {
  std::uint64_t row = 0;
  std::uint64_t column = 0;
};
inline Place place_in(const std::vector<Ranks>& grid, std::uint64_t rank) {
  Place place;
  while (grid[place.row].back() < rank) ++place.row;
  place.column = rank - grid[place.row].front();
  return place;
}

// The terms of a sum, in order, each the sum of some ranks: those of each other row, from the row behind the owner's
// on, as its relay adds them up; then the ranks of the owner's row, one by one.
inline std::vector<Ranks> terms_in_grid(std::uint64_t world, std::uint64_t owner) {
  const std::vector<Ranks> grid = rows_of(world);
  const Place at = place_in(grid, owner);
  std::vector<Ranks> terms;
  for (std::uint64_t i = 1; i < grid.size(); ++i) terms.push_back(row_to(grid[(at.row + i) % grid.size()], at.column));
  for (const std::uint64_t rank : row_to(grid[at.row], at.column)) terms.push_back({rank});
  return terms;
}

}  // namespace lockstep::sim::oracle
