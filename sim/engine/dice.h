// Chances and ranges on top of the keyed draw: what is drawn, for whom, the n-th time. Integer arithmetic only.
#pragma once

#include <cstdint>

#include "core/base/rng.h"

namespace lockstep::sim {

// The purpose of a drawn number. Each kind of draw has its own purpose, so that no draw moves another.
enum class Purpose : std::uint64_t {
  kTie = 1,
  kJitter,
  kShortRead,
  kShortWrite,
  kLandDelay,
  kTakeDelay,
  kPieces,
  kAnswerDelay,
  kRevokeDelay,
  kCloseDelay,
  kLoss,
  kKernelDelay,
  kTimerDelay,
  kResolveDelay,
  kIdentity,
  kPort,
  kLink,
  kPlan,
  kFault,
  kStep,
  kOp,
  kLaunch,
  kThink,
  kContent,
  kRenewal,
  kState,
  kLie,
  kMute,
  kOnce,
  kStranger,
  kFlip,
  kMiscompute,
  kOddElement,
  kOddWeight,
  kOddTail,
  kOverlap,
  kAge,
  kLongLife,
  kTorn,
  kAtPiece,
  kParted = 60,
  kNamesake,
  kMidway,
  kLate,
  kReduce,
  kExchange,
  kRefuse,
  kTransfer,
  kWindow,
  kDrip,
  kHolders,
  kLiar,
  kStrike,
  kImpostor,
  kViolator,
  kWrongKey,
  kShut,
};

// One draw that decides several things, up to five.
class Luck {
 public:
  constexpr Luck() = default;
  constexpr explicit Luck(std::uint64_t bits) : bits_(bits) {}
  constexpr bool permille(std::uint64_t chance) {
    const std::uint64_t part = bits_ & 0xfffU;
    bits_ >>= 12U;
    return part * 1000 >> 12U < chance;
  }

 private:
  std::uint64_t bits_ = 0;
};

class Dice {
 public:
  constexpr explicit Dice(std::uint64_t seed) : seed_(seed), mixed_(mix64(seed)) {}
  [[nodiscard]] constexpr std::uint64_t seed() const { return seed_; }

  [[nodiscard]] constexpr std::uint64_t bits(Purpose purpose, std::uint64_t a, std::uint64_t b = 0,
                                             std::uint64_t n = 0) const {
    return draw_from(mixed_, static_cast<std::uint64_t>(purpose), a, b, n);
  }
  // lo..hi, both included.
  [[nodiscard]] constexpr std::uint64_t range(std::uint64_t lo, std::uint64_t hi, Purpose purpose, std::uint64_t a,
                                              std::uint64_t b = 0, std::uint64_t n = 0) const {
    return lo + below(bits(purpose, a, b, n), hi - lo + 1);
  }
  [[nodiscard]] constexpr bool permille(std::uint64_t chance, Purpose purpose, std::uint64_t a, std::uint64_t b = 0,
                                        std::uint64_t n = 0) const {
    return below(bits(purpose, a, b, n), 1000) < chance;
  }
  // Mostly small, sometimes large: a uniform power of two of `hi`, then uniform below it.
  [[nodiscard]] constexpr std::uint64_t skewed(std::uint64_t hi, Purpose purpose, std::uint64_t a, std::uint64_t b = 0,
                                               std::uint64_t n = 0) const {
    const std::uint64_t x = bits(purpose, a, b, n);
    return below(mix64(x), (hi >> (x & 7U)) + 1);
  }

 private:
  std::uint64_t seed_;
  std::uint64_t mixed_;
};

}  // namespace lockstep::sim
