// The tree by which the contributions to a piece reach its owner, and the result comes back. Direct, all ranks stand in
// one row: each sends straight to the owner. In a grid they stand in rows of nearly sqrt(n) ranks, so that a rank has
// links to the ranks of its row and of its column only: a rank sends to the rank of its own row that stands in the
// owner's column, its relay; the relay adds up its row, and sends the sum down the column to the owner. Arithmetic
// only.
//
// Rows are ranges of ranks, in order; the first n mod rows of them have one rank more than the others: the last one,
// which stands in no column. It owns no chunk of a tensor. Where it must be an owner (of its block, or as a root), its
// relay in another long row is the last rank of that row, and in a short row the rank whose column has the number of
// the owner's row.
#pragma once

#include <cstdint>
#include <optional>

#include "core/wire/message.h"

namespace lockstep::ring {

class Grid {
 public:
  // One row: everybody is next to everybody.
  static constexpr Grid row(std::uint32_t world) { return {world, 1}; }
  // As many rows as the root of the number of ranks, rounded down.
  static constexpr Grid square(std::uint32_t world) {
    std::uint32_t rows = 1;
    while ((rows + 1) * (rows + 1) <= world) ++rows;
    return {world, rows};
  }

  [[nodiscard]] constexpr std::uint32_t rows() const { return rows_; }
  [[nodiscard]] constexpr std::uint32_t columns() const { return world_ / rows_; }
  // Of a rank without a column: columns().
  [[nodiscard]] constexpr std::uint32_t column_of(std::uint32_t rank) const { return rank - first_of(row_of(rank)); }
  [[nodiscard]] constexpr std::uint32_t row_of(std::uint32_t rank) const {
    const std::uint32_t in_long_rows = (world_ % rows_) * (columns() + 1);
    return rank < in_long_rows ? rank / (columns() + 1) : world_ % rows_ + (rank - in_long_rows) / columns();
  }

  [[nodiscard]] constexpr bool has_column(std::uint32_t rank) const { return column_of(rank) < columns(); }

  // The ranks that can own chunks of a tensor, in order.
  [[nodiscard]] constexpr std::uint32_t owners() const { return rows_ * columns(); }
  [[nodiscard]] constexpr std::uint32_t owner(std::uint32_t index) const {
    return rank_at(index / columns(), index % columns());
  }

  // The rank that stands between the owner and the ranks of this row; in the owner's row, the owner.
  [[nodiscard]] constexpr std::uint32_t relay(std::uint32_t row, std::uint32_t owner) const {
    const std::uint32_t column = column_of(owner);
    if (row == row_of(owner) || column < length_of(row)) return rank_at(row, column);
    return rank_at(row, row_of(owner));  // there are at least as many columns as rows
  }
  // Whether there is a link between these two.
  [[nodiscard]] constexpr bool are_linked(std::uint32_t a, std::uint32_t b) const {
    if (a == b || row_of(a) == row_of(b)) return a != b;
    return relay(row_of(b), a) == b || relay(row_of(a), b) == a;
  }
  // Whether this rank is the owner of a piece, or a relay on the way to it.
  [[nodiscard]] constexpr bool collects(std::uint32_t rank, std::uint32_t owner) const {
    return relay(row_of(rank), owner) == rank;
  }
  // The rank to which this rank sends its contribution, or that of its row. This rank does not own the piece.
  [[nodiscard]] constexpr std::uint32_t parent(std::uint32_t rank, std::uint32_t owner) const {
    return collects(rank, owner) ? owner : relay(row_of(rank), owner);
  }
  // Those whose parent this rank is, in the order in which it adds up: the relays of the rows behind the owner's, then
  // its own row, from the rank behind it on. Its own contribution is the last one.
  [[nodiscard]] constexpr std::uint32_t children(std::uint32_t rank, std::uint32_t owner) const {
    return collects(rank, owner) ? relays(rank, owner) + length_of(row_of(rank)) - 1 : 0;
  }
  [[nodiscard]] constexpr std::uint32_t child(std::uint32_t rank, std::uint32_t owner, std::uint32_t index) const {
    const std::uint32_t row = row_of(rank);
    if (index < relays(rank, owner)) return relay((row + 1 + index) % rows_, owner);
    const std::uint32_t behind = index - relays(rank, owner) + 1;
    return first_of(row) + (column_of(rank) + behind) % length_of(row);
  }
  // Returns the index of this child; nullopt if the rank is no child.
  [[nodiscard]] constexpr std::optional<std::uint32_t> index_of_child(std::uint32_t rank, std::uint32_t owner,
                                                                      std::uint32_t child) const {
    if (!collects(rank, owner) || child == rank) return std::nullopt;
    const std::uint32_t row = row_of(rank);
    const std::uint32_t row_of_child = row_of(child);
    if (row_of_child == row) {
      const std::uint32_t length = length_of(row);
      return relays(rank, owner) + (column_of(child) + length - column_of(rank) - 1) % length;
    }
    if (rank != owner || !collects(child, owner)) return std::nullopt;
    return (row_of_child + rows_ - row - 1) % rows_;
  }
  // The most children of any rank: as many as it has links.
  [[nodiscard]] constexpr std::uint32_t most_children() const { return rows_ - 1 + length_of(0) - 1; }
  // The number of ranks in this row.
  [[nodiscard]] constexpr std::uint32_t length_of(std::uint32_t row) const {
    return columns() + (row < world_ % rows_ ? 1 : 0);
  }

 private:
  constexpr Grid(std::uint32_t world, std::uint32_t rows) : world_(world), rows_(rows) {}
  [[nodiscard]] constexpr std::uint32_t first_of(std::uint32_t row) const {
    const std::uint32_t longer = row < world_ % rows_ ? row : world_ % rows_;
    return row * columns() + longer;
  }
  [[nodiscard]] constexpr std::uint32_t rank_at(std::uint32_t row, std::uint32_t column) const {
    return first_of(row) + column;
  }
  [[nodiscard]] constexpr std::uint32_t relays(std::uint32_t rank, std::uint32_t owner) const {
    return rank == owner ? rows_ - 1 : 0;
  }

  std::uint32_t world_;
  std::uint32_t rows_;
};

// The rows in which ranks stand with this algorithm: one row, except in a grid.
constexpr Grid grid_of(wire::Algorithm algorithm, std::uint32_t world) {
  return algorithm == wire::Algorithm::kGrid ? Grid::square(world) : Grid::row(world);
}

}  // namespace lockstep::ring
