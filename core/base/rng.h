// Random numbers by key. Each number is computed from (seed, purpose, who, n-th) and never drawn from a shared stream,
// so removing one draw changes no other. Integer arithmetic only: results are equal on every compiler and machine.
#pragma once

#include <cstdint>

namespace lockstep {

// Mixes 64 bits well (the finalizer of SplitMix64; Steele, Lea and Flood 2014).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

// One draw by key, for callers that keep mix64(seed).
constexpr std::uint64_t draw_from(std::uint64_t mixed_seed, std::uint64_t purpose, std::uint64_t a, std::uint64_t b,
                                  std::uint64_t n) {
  return mix64(mix64(mix64(mix64(mixed_seed ^ purpose) ^ a) ^ b) ^ n);
}

// One draw by key.
constexpr std::uint64_t draw(std::uint64_t seed, std::uint64_t purpose, std::uint64_t a = 0, std::uint64_t b = 0,
                             std::uint64_t n = 0) {
  return draw_from(mix64(seed), purpose, a, b, n);
}

// Maps 64 random bits to [0, bound). The bias is negligible for a bound much smaller than 2^64. bound >= 1.
constexpr std::uint64_t below(std::uint64_t bits, std::uint64_t bound) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits) * bound) >> 64U);
}

}  // namespace lockstep
