// The payload rates of a plan's lines. Providers sell bits of IP packets, and `rate`, `up` and `down` of a real line
// mean these; the fluid of sim/flow has no headers. Only `predict` converts the rates; the network of a run uses them
// as they are.
#pragma once

#include <cstdint>

#include "sim/plan/plan.h"

namespace lockstep::sim {

inline constexpr std::uint32_t kHeaderBytes = 52;  // IPv4 20, TCP 20, its time stamps 12 (RFC 7323)
inline constexpr std::uint32_t kUsualMtu = 1500;
inline constexpr std::uint32_t kLeastMtu = 576;  // RFC 791

// The payload rate of a line of `bytes_per_s` in full packets. `both_ways`: the line also carries the acknowledgements
// of an equal amount of payload in the other direction, one for every second packet (RFC 5681, section 4.2).
std::uint64_t payload_rate(std::uint64_t bytes_per_s, std::uint32_t mtu, bool both_ways);

// The same plan with payload rates. A host's line carries acknowledgements of incoming data beside outgoing data, and
// so does the shared line of a region. The way from one host to another does so around a ring only if there are two
// hosts; with the other algorithms its rate here is up to 2 % too high.
void leave_room_for_headers(Plan& plan, std::uint32_t mtu);

}  // namespace lockstep::sim
