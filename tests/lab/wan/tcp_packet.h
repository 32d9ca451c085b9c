// TCP over IPv4 as it stands in a packet: what a path can know of a connection, and how it ends one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace lockstep::wan {

struct Endpoint {
  std::uint32_t address = 0;
  std::uint16_t port = 0;
  auto operator<=>(const Endpoint&) const = default;
};

struct TcpSegment {
  Endpoint from;
  Endpoint to;
  std::uint32_t sequence = 0;
  std::uint32_t acknowledged = 0;
  std::uint32_t payload_bytes = 0;
  bool syn = false;
  bool fin = false;
  bool rst = false;
  bool ack = false;

  // Of what comes after it: SYN and FIN take a number each.
  [[nodiscard]] std::uint32_t next() const {
    return sequence + payload_bytes + static_cast<std::uint32_t>(syn) + static_cast<std::uint32_t>(fin);
  }
};

// The TCP segment of an IPv4 packet without the header of the device, or nullopt: no TCP, or not all of its header.
std::optional<TcpSegment> tcp_segment_of(std::span<const std::byte> packet);

using ResetPacket = std::array<std::byte, 40>;  // headers of IP and TCP without options

// Tells `to` that `from` has ended their connection. A kernel believes it only when the number is that of the next byte
// that it expects (RFC 5961, section 3.2).
ResetPacket reset_packet(const Endpoint& from, const Endpoint& to, std::uint32_t sequence);

// The checksum of IP and TCP (RFC 1071). Over bytes that hold their right checksum it is 0.
std::uint16_t internet_checksum(std::span<const std::byte> bytes, std::uint32_t sum = 0);

}  // namespace lockstep::wan
