#include "tests/lab/wan/tcp_packet.h"

#include <netinet/in.h>

namespace lockstep::wan {
namespace {

constexpr std::size_t kPlainIpBytes = 20;
constexpr std::size_t kPlainTcpBytes = 20;
enum Flag : unsigned { kFin = 1, kSyn = 2, kRst = 4, kAck = 16 };

std::uint32_t read(std::span<const std::byte> bytes, std::size_t at, std::size_t width) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < width; ++i) value = value << 8U | std::to_integer<std::uint32_t>(bytes[at + i]);
  return value;
}

void write(std::span<std::byte> bytes, std::size_t at, std::size_t width, std::uint32_t value) {
  for (std::size_t i = width; i-- > 0; value >>= 8U) bytes[at + i] = static_cast<std::byte>(value);
}

}  // namespace

std::optional<TcpSegment> tcp_segment_of(std::span<const std::byte> packet) {
  if (packet.size() < kPlainIpBytes + kPlainTcpBytes) return std::nullopt;
  const std::uint32_t first = read(packet, 0, 1);
  const std::size_t ip_header = std::size_t{first & 15U} * 4;
  const std::size_t total = read(packet, 2, 2);
  const bool later_fragment = (read(packet, 6, 2) & 0x1fffU) != 0;
  if (first >> 4U != 4 || ip_header < kPlainIpBytes || read(packet, 9, 1) != IPPROTO_TCP || later_fragment) return {};
  if (total > packet.size() || total < ip_header + kPlainTcpBytes) return std::nullopt;
  const std::span<const std::byte> tcp = packet.subspan(ip_header, total - ip_header);
  const std::size_t tcp_header = std::size_t{read(tcp, 12, 1) >> 4U} * 4;
  if (tcp_header < kPlainTcpBytes || tcp_header > tcp.size()) return std::nullopt;
  const std::uint32_t flags = read(tcp, 13, 1);
  TcpSegment segment;
  segment.from = {read(packet, 12, 4), static_cast<std::uint16_t>(read(tcp, 0, 2))};
  segment.to = {read(packet, 16, 4), static_cast<std::uint16_t>(read(tcp, 2, 2))};
  segment.sequence = read(tcp, 4, 4);
  segment.acknowledged = read(tcp, 8, 4);
  segment.payload_bytes = static_cast<std::uint32_t>(tcp.size() - tcp_header);
  segment.syn = (flags & kSyn) != 0;
  segment.fin = (flags & kFin) != 0;
  segment.rst = (flags & kRst) != 0;
  segment.ack = (flags & kAck) != 0;
  return segment;
}

ResetPacket reset_packet(const Endpoint& from, const Endpoint& to, std::uint32_t sequence) {
  ResetPacket packet{};
  const std::span<std::byte> ip = std::span(packet).first(kPlainIpBytes);
  const std::span<std::byte> tcp = std::span(packet).subspan(kPlainIpBytes);
  write(ip, 0, 1, 4U << 4U | kPlainIpBytes / 4);
  write(ip, 2, 2, static_cast<std::uint32_t>(packet.size()));
  write(ip, 8, 1, 64);  // hops that it may take
  write(ip, 9, 1, IPPROTO_TCP);
  write(ip, 12, 4, from.address);
  write(ip, 16, 4, to.address);
  write(ip, 10, 2, internet_checksum(ip));
  write(tcp, 0, 2, from.port);
  write(tcp, 2, 2, to.port);
  write(tcp, 4, 4, sequence);
  write(tcp, 12, 1, kPlainTcpBytes / 4 << 4U);
  write(tcp, 13, 1, kRst);
  // Addresses, protocol and length are summed, too (RFC 9293, section 3.1).
  const std::uint32_t sum = (from.address >> 16U) + (from.address & 0xffffU) + (to.address >> 16U) +
                            (to.address & 0xffffU) + IPPROTO_TCP + kPlainTcpBytes;
  write(tcp, 16, 2, internet_checksum(tcp, sum));
  return packet;
}

std::uint16_t internet_checksum(std::span<const std::byte> bytes, std::uint32_t sum) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    sum += std::to_integer<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
  while (sum >> 16U != 0) sum = (sum & 0xffffU) + (sum >> 16U);
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace lockstep::wan
