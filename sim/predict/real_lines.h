// The lines of a plan as payload sees them. What is sold, and what `rate`, `up` and `down` of a real line mean, are bits of IP packets;
// the fluid of sim/flow has no headers. Of that only `predict` knows: the network of a run stays as its plan says it.
#pragma once

#include <cstdint>

#include "sim/plan.h"

namespace lockstep::sim {

inline constexpr std::uint32_t kHeaderBytes = 52;  // IPv4 20, TCP 20, its time stamps 12 (RFC 7323)
inline constexpr std::uint32_t kUsualMtu = 1500;
inline constexpr std::uint32_t kLeastMtu = 576;  // RFC 791

// How much payload goes over a line of `bytes_per_s` in full packets. `both_ways`: it carries, too, the acknowledgements of as much
// payload that comes the other way, one for every second packet (RFC 5681, section 4.2).
std::uint64_t payload_rate(std::uint64_t bytes_per_s, std::uint32_t mtu, bool both_ways);

// The same plan, its rates made those of payload. In a ring, a host's line carries acknowledgements of what comes in beside what goes
// out, and so does the line that a region shares; the way from one host to another only between two.
void leave_room_for_headers(Plan& plan, std::uint32_t mtu);

}  // namespace lockstep::sim
