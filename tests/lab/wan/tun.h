// The network device of one host: what its kernel sends is read here, what is written here it receives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/base/result.h"
#include "tests/lab/wan/file.h"
#include "tests/lab/wan/topology.h"

namespace lockstep::wan {

// The header before each IP packet that is read and written. It says whether the checksum is still to be computed,
// which nobody does.
inline constexpr std::size_t kTunHeaderBytes = 10;

// Makes the device `wan0` in the namespace in which this thread is, with the address of this host, and sets what the
// topology says of TCP there. Reads and writes do not block. The device is gone when the file is closed.
Result<File> open_tun(const Topology& topology, std::uint32_t host);

// The destination of an IPv4 packet with its header of the device, or nullopt: it is no IPv4 packet.
std::optional<std::uint32_t> destination_of(std::span<const std::byte> packet);

}  // namespace lockstep::wan
