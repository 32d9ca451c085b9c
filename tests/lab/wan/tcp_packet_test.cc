// TCP in packets: what is read from them, and resets that kernels believe.
#include "tests/lab/wan/tcp_packet.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::wan {
namespace {

constexpr Endpoint kA{0x0a4d0001, 4000};
constexpr Endpoint kB{0x0a4d0002, 50'000};

std::vector<std::byte> packet_of(std::initializer_list<unsigned> bytes) {
  std::vector<std::byte> packet;
  for (const unsigned byte : bytes) packet.push_back(static_cast<std::byte>(byte));
  return packet;
}

// From 10.77.0.1:4000 to 10.77.0.2:50000, with options in both headers and three bytes of payload.
std::vector<std::byte> data_packet() {
  return packet_of({0x46, 0, 0,    51,   0, 0, 0x40, 0,    64,   6,    0,    0,    10,   77,   0,    1,   10,
                    77,   0, 2,    1,    1, 1, 0,    0x0f, 0xa0, 0xc3, 0x50, 0xff, 0xff, 0xff, 0xfe, 0,   0,
                    1,    0, 0x60, 0x18, 0, 9, 0,    0,    0,    0,    1,    1,    1,    0,    'a',  'b', 'c'});
}

TEST(WanTcpPacket, ASegmentIsReadBehindOptions) {
  const auto segment = tcp_segment_of(data_packet());
  ASSERT_TRUE(segment);
  EXPECT_EQ(segment->from, kA);
  EXPECT_EQ(segment->to, kB);
  EXPECT_EQ(segment->sequence, 0xfffffffeU);
  EXPECT_EQ(segment->acknowledged, 256U);
  EXPECT_EQ(segment->payload_bytes, 3U);
  EXPECT_TRUE(segment->ack);
  EXPECT_FALSE(segment->syn || segment->fin || segment->rst);
  EXPECT_EQ(segment->next(), 1U);  // numbers wrap
}

TEST(WanTcpPacket, SynAndFinTakeANumberEach) {
  TcpSegment segment;
  segment.sequence = 7;
  segment.syn = true;
  EXPECT_EQ(segment.next(), 8U);
  segment.syn = false;
  segment.fin = true;
  segment.payload_bytes = 10;
  EXPECT_EQ(segment.next(), 18U);
}

TEST(WanTcpPacket, WhatIsNotAllOfAHeaderIsNone) {
  const std::vector<std::byte> whole = data_packet();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(tcp_segment_of(std::span(whole).first(size))) << size;
  }
  const auto with = [&](std::size_t at, unsigned byte) {
    std::vector<std::byte> packet = whole;
    packet[at] = static_cast<std::byte>(byte);
    return tcp_segment_of(packet).has_value();
  };
  EXPECT_TRUE(with(1, 0));
  EXPECT_FALSE(with(0, 0x66));   // version 6
  EXPECT_FALSE(with(0, 0x44));   // a header of 16 bytes
  EXPECT_FALSE(with(9, 17));     // UDP
  EXPECT_FALSE(with(7, 1));      // a later fragment
  EXPECT_FALSE(with(36, 0x40));  // a TCP header of 16 bytes
  EXPECT_FALSE(with(36, 0xf0));  // one beyond the end
}

TEST(WanTcpPacket, ChecksumsAreThoseOfTheStandard) {
  // RFC 1071, section 3: these sum up to ddf2.
  EXPECT_EQ(internet_checksum(packet_of({0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7})), 0x220dU);
  EXPECT_EQ(internet_checksum(packet_of({0xab})), 0x54ffU);  // an odd byte is the higher one
  // A header of IP that textbooks have: its checksum is b861.
  EXPECT_EQ(internet_checksum(packet_of({0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11,
                                         0x00, 0x00, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7})),
            0xb861U);
}

TEST(WanTcpPacket, AResetHasItsNumberAndRightChecksums) {
  for (const std::uint32_t sequence : {0U, 1U, 0x12345678U, 0x89abcdefU, 0xffffffffU}) {
    const ResetPacket packet = reset_packet(kA, kB, sequence);
    const auto segment = tcp_segment_of(packet);
    ASSERT_TRUE(segment);
    EXPECT_EQ(segment->from, kA);
    EXPECT_EQ(segment->to, kB);
    EXPECT_EQ(segment->sequence, sequence);
    EXPECT_EQ(segment->payload_bytes, 0U);
    EXPECT_TRUE(segment->rst);
    EXPECT_FALSE(segment->syn || segment->fin || segment->ack);
    EXPECT_EQ(internet_checksum(std::span(packet).first(20)), 0U);
    std::vector<std::byte> summed(packet.begin() + 12, packet.begin() + 20);  // addresses, protocol, length
    for (const std::byte byte : packet_of({0, 6, 0, 20})) summed.push_back(byte);
    summed.insert(summed.end(), packet.begin() + 20, packet.end());
    EXPECT_EQ(internet_checksum(summed), 0U);
  }
}

}  // namespace
}  // namespace lockstep::wan
