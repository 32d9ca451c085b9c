// The judgement of `lockstep doctor` on this machine. Pure: the same facts give the same findings.
#pragma once

#include "bindings/cli/doctor/finding.h"
#include "bindings/cli/doctor/machine_facts.h"

namespace lockstep::cli::doctor {

// A process with fewer descriptors than that cannot hold the streams of a peer whose two neighbours are behind lines
// that lose packets: 32 to each, and as many descriptors for everything else.
inline constexpr std::uint64_t kLeastDescriptors = 128;
// Enough for the streams of strangers at one port (512, docs/limits.md), two to each of 64 far members, and files.
inline constexpr std::uint64_t kUsualDescriptors = 1024;

// A far path: what one stream carries there at least, so that few streams fill a line of some hundred Mbit/s.
inline constexpr double kFarSeconds = 0.1;
inline constexpr double kFarBytesPerSecond = 12.5e6;  // 100 Mbit/s

inline constexpr std::uint64_t kLeastMemory = std::uint64_t{512} << 20U;  // bytes

// The bytes per second that one stream carries at a round trip of kFarSeconds, if the kernel gives it at most so much
// memory. The kernel uses about half of it for headers and spare room (tcp_adv_win_scale and tcp_sndbuf_expand() of
// Linux).
double far_rate(std::uint64_t most_bytes);

// Each judges one part of the facts.
Finding check_build(const MachineFacts& machine);
Finding check_processor(const MachineFacts& machine);
Finding check_memory(const MachineFacts& machine);
Finding check_descriptors(const MachineFacts& machine);
Finding check_congestion_control(const MachineFacts& machine);
Finding check_receive_memory(const MachineFacts& machine);
Finding check_send_memory(const MachineFacts& machine);
Finding check_clock(const MachineFacts& machine);
Finding check_addresses(const MachineFacts& machine);
Finding check_advertised(const MachineFacts& machine);

// All of them, in the order in which they are shown.
Findings check_machine(const MachineFacts& machine);

}  // namespace lockstep::cli::doctor
