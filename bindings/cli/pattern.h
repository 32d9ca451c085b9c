// Inputs whose fold is known: what `lockstep bench` sends, and what must come back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep.h"

namespace lockstep::cli {

// All values are small whole numbers, exact in every type, whatever the order of the fold; integers wrap. They repeat
// after a prime number of elements, so that a segment in the wrong place (a power of two away) does not look right.
class Pattern {
 public:
  Pattern(lockstep_data_type type, lockstep_op op, std::uint32_t world);

  // Writes this rank's elements `first`, `first + 1`, ... to `out`.
  void fill(std::span<std::byte> out, std::uint32_t rank, std::uint64_t first = 0) const;

  // How many elements are not the fold over all ranks.
  [[nodiscard]] std::uint64_t wrong_in_fold(std::span<const std::byte> got, std::uint64_t first = 0) const;
  // Of f32: how many elements are not within `part` of the largest one of the fold.
  [[nodiscard]] std::uint64_t far_from_fold(std::span<const std::byte> got, double part) const;
  // How many elements are not those of `rank`.
  [[nodiscard]] std::uint64_t wrong_in_copy(std::span<const std::byte> got, std::uint32_t rank) const;

 private:
  [[nodiscard]] std::vector<std::byte> period_of(std::uint32_t rank) const;
  [[nodiscard]] std::vector<std::byte> folded_period() const;
  [[nodiscard]] std::uint64_t value(std::uint32_t rank, std::uint64_t index) const;

  lockstep_data_type type_;
  lockstep_op op_;
  std::uint32_t world_;
  std::size_t element_;
};

}  // namespace lockstep::cli
