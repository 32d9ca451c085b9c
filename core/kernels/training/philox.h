// Philox 4x32-10: random words that depend on a key and a counter alone, so that every peer computes the same words, in
// any order. J. Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011.
#pragma once

#include <array>
#include <cstdint>

namespace lockstep::training {

using PhiloxKey = std::array<std::uint32_t, 2>;
using PhiloxCounter = std::array<std::uint32_t, 4>;

inline constexpr std::uint32_t kPhiloxMultipliers[] = {0xD2511F53U, 0xCD9E8D57U};
inline constexpr std::uint32_t kPhiloxWeyl[] = {0x9E3779B9U, 0xBB67AE85U};
inline constexpr std::size_t kPhiloxRounds = 10;

// The four words of one counter.
constexpr std::array<std::uint32_t, 4> philox(PhiloxCounter counter, PhiloxKey key) {
  for (std::size_t round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t left = std::uint64_t{kPhiloxMultipliers[0]} * counter[0];
    const std::uint64_t right = std::uint64_t{kPhiloxMultipliers[1]} * counter[2];
    counter = {static_cast<std::uint32_t>(right >> 32U) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(right),
               static_cast<std::uint32_t>(left >> 32U) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(left)};
    key[0] += kPhiloxWeyl[0];
    key[1] += kPhiloxWeyl[1];
  }
  return counter;
}

}  // namespace lockstep::training
