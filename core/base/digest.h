// An XXH3-128 digest. Two states with equal digests are treated as equal.
#pragma once

#include <compare>
#include <cstdint>

namespace lockstep {

struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  constexpr auto operator<=>(const Digest&) const = default;
};

}  // namespace lockstep
