// The hosts of a run, and sets of them.
#pragma once

#include <bitset>
#include <cstdint>

#include "core/wire/limits.h"

namespace lockstep::sim {

inline constexpr std::uint32_t kMaxPeers = kMaxMembers;    // hosts of peers in a plan: as many as a run may have
inline constexpr std::uint32_t kMaxHosts = kMaxPeers + 1;  // host 0 is the coordinator's

using HostSet = std::bitset<kMaxHosts>;

inline HostSet only(std::uint32_t host) { return HostSet().set(host); }

}  // namespace lockstep::sim
