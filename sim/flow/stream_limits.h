// The limits of one TCP stream: its window, its losses, and its share beside other streams.
#pragma once

#include <cstdint>

#include "sim/flow/options.h"

namespace lockstep::sim::flow {

inline constexpr std::uint64_t kPacketBytes = 1448;               // payload of one, behind 52 bytes of headers
inline constexpr std::uint64_t kFirstWindow = 10 * kPacketBytes;  // RFC 6928
inline constexpr std::int64_t kLeastRetransmissionNs =
    200'000'000;  // Linux: the time-out is no less beyond a round trip
// The time for which a slow line carries one stream before it turns to the next, beyond the bytes in flight.
inline constexpr std::int64_t kTurnNs = 100'000'000;
inline constexpr std::uint32_t kPerMillion = 1'000'000;

// A window in a round trip.
std::uint64_t window_cap(std::uint64_t window_bytes, std::int64_t round_trip_ns);

// The mean rate that packet losses leave. Reno: Mathis et al. 1997, (MSS/RTT) sqrt(3/2) / sqrt(p). CUBIC: the larger of
// that and its own response function (RFC 9438, section 5.1). BBR does not slow down below 20 % loss, beyond which its
// probes do not pay (Cardwell et al. 2016, section "Evaluation"); there it is like Reno.
std::uint64_t loss_cap(Congestion congestion, std::uint32_t loss_ppm, std::int64_t round_trip_ns);

// Streams that share a line get parts of it inversely proportional to their round-trip times (Casanova and Marchal,
// RR-LIP 2002-40, known as CM02). A line that they fill has a queue before it, which holds kTurnNs of its rate and
// delays them alike: a near stream does not starve a far one.
std::uint64_t weight_of(std::int64_t round_trip_ns);

}  // namespace lockstep::sim::flow
