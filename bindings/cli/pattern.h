// Inputs with a known fold: the data that `lockstep bench` sends, and the expected result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep.h"

namespace lockstep::cli {

// All values are small whole numbers: exact in every type, in any order of the fold; integers wrap. The values repeat
// after a prime number of elements, so a segment in a wrong place (displaced by a power of two) is detected.
class Pattern {
 public:
  Pattern(lockstep_data_type type, lockstep_op op, std::uint32_t world);

  // Writes this rank's elements `first`, `first + 1`, ... to `out`.
  void fill(std::span<std::byte> out, std::uint32_t rank, std::uint64_t first = 0) const;

  // The number of elements that differ from the fold over all ranks.
  [[nodiscard]] std::uint64_t wrong_in_fold(std::span<const std::byte> got, std::uint64_t first = 0) const;
  // f32: the number of elements that differ from the fold by more than `part` of its largest element.
  [[nodiscard]] std::uint64_t far_from_fold(std::span<const std::byte> got, double part) const;
  // The number of elements that differ from those of `rank`.
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
