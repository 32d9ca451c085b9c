// The settings of chaos.cc, and what its two sides, the driver and the peers, share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/wire/limits.h"

namespace lockstep::testing {

struct ChaosSettings {
  std::uint64_t steps = 1000;
  std::uint64_t seed = 1;
  std::uint64_t peers = 4;
  std::uint64_t mean_fault_ms = 1000;
  std::uint64_t compute_ms = 100;  // duration of a step's own work
  std::uint64_t max_count = 300'000;
  std::uint64_t silence_ms = 2000;
  std::uint64_t stuck_s = 30;  // a hang if no step ends within this time
  bool verbose = false;
};

constexpr std::size_t kLeastAlive = 2;
constexpr std::size_t kMostAlive = 6;
constexpr std::uint32_t kNeverFounds = kMaxMembers;  // newcomers wait for the run and never found one

enum ChaosPurpose : std::uint64_t { kInput = 1, kShape, kLocal, kFault, kFaultTime, kVictim };

}  // namespace lockstep::testing
