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

// The rank of this row that stands between the owner and its row; in the owner's row the owner itself. A rank at the
// end of a long row stands in no column: in a short row, the rank in the column with the number of the owner's row.
inline std::uint64_t relay_in(const std::vector<Ranks>& grid, std::uint64_t row, std::uint64_t owner) {
  const Place at = place_in(grid, owner);
  if (row == at.row) return owner;
  return at.column < grid[row].size() ? grid[row][at.column] : grid[row][at.row];
}

// The ranks that get the result of this owner from a rank: those of its row, if it is the owner or a relay, and from
// the owner the relays.
inline Ranks below_in_grid(const std::vector<Ranks>& grid, std::uint64_t rank, std::uint64_t owner) {
  Ranks below;
  const std::uint64_t row = place_in(grid, rank).row;
  if (relay_in(grid, row, owner) != rank) return below;
  for (const std::uint64_t other : grid[row]) {
    if (other != rank) below.push_back(other);
  }
  for (std::uint64_t other = 0; other < grid.size() && rank == owner; ++other) {
    if (other != row) below.push_back(relay_in(grid, other, owner));
  }
  return below;
}

// The way of the bytes of a broadcast or a reduce in a grid: like way_of_root(), but straight they leave the root's
// line once for each of its links, in two hops, and through owners twice, in four.
inline RootWay way_of_root_in_grid(std::uint64_t bytes, std::uint64_t world) {
  constexpr std::uint64_t kMib = 1U << 20U;
  const std::vector<Ranks> grid = rows_of(world);
  const std::uint64_t links = grid.size() - 1 + grid.front().size() - 1;
  if (bytes <= kMib && bytes * (links - 1) <= 2 * kMib) return RootWay::kStraight;
  return world >= 6 && bytes <= kMib * (world - 5) ? RootWay::kThroughOwners : RootWay::kAround;
}

// The terms of a sum, in order, each the sum of some ranks: those of each other row, from the row behind the owner's
// on, as its relay adds them up; then the ranks of the owner's row, one by one.
inline std::vector<Ranks> terms_in_grid(std::uint64_t world, std::uint64_t owner) {
  const std::vector<Ranks> grid = rows_of(world);
  const Place at = place_in(grid, owner);
  std::vector<Ranks> terms;
  for (std::uint64_t i = 1; i < grid.size(); ++i) {
    const std::uint64_t row = (at.row + i) % grid.size();
    terms.push_back(row_to(grid[row], place_in(grid, relay_in(grid, row, owner)).column));
  }
  for (const std::uint64_t rank : row_to(grid[at.row], at.column)) terms.push_back({rank});
  return terms;
}

}  // namespace lockstep::sim::oracle
