// XXH3-128 of some bytes. Two states of the same digest are taken for the same.
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
