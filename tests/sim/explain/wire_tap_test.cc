// Messages are read from the bytes of a stream however they are cut; noise is not taken for messages.
#include "sim/explain/wire_tap.h"

#include <algorithm>
#include <variant>

#include <gtest/gtest.h>

#include "core/wire/codec.h"

namespace lockstep::sim {
namespace {

using Heard = std::vector<WireTap::Heard>;

std::vector<std::byte> preamble() {
  std::vector<std::byte> bytes;
  wire::encode(wire::Preamble{}, bytes);
  return bytes;
}

TEST(WireTap, HearsMessagesByteByByte) {
  std::vector<std::byte> bytes = preamble();
  wire::encode(wire::Heartbeat{}, Term{1}, bytes);
  const std::size_t first = bytes.size();
  wire::encode(wire::Pending{3, 1}, Term{1}, bytes);
  WireTap tap;
  Heard heard;
  for (const std::byte& byte : bytes) tap.hear({&byte, 1}, 1, heard);
  ASSERT_EQ(heard.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<wire::Heartbeat>(heard[0].message));
  EXPECT_EQ(heard[0].end, first);
  EXPECT_EQ(std::get<wire::Pending>(heard[1].message).count, 3U);
  EXPECT_EQ(heard[1].end, bytes.size());
}

TEST(WireTap, ASegmentIsHeardWithItsTrailerAndItsPayloadNeedNotBeShown) {
  std::vector<std::byte> head = preamble();
  wire::Segment segment;
  segment.length = 1000;
  wire::encode(segment, Term{1}, head);
  std::array<std::byte, wire::kTrailerBytes> trailer{};
  wire::encode(wire::Trailer{}, trailer);
  WireTap tap;
  Heard heard;
  tap.hear(head, head.size(), heard);
  tap.hear({}, 400, heard);
  tap.hear({}, 600, heard);
  EXPECT_TRUE(heard.empty());
  tap.hear(trailer, trailer.size(), heard);
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(std::get<wire::Segment>(heard[0].message), segment);
  EXPECT_EQ(heard[0].end, head.size() + 1000 + trailer.size());
}

TEST(WireTap, FallsSilentAtNoise) {
  std::vector<std::byte> bytes = preamble();
  bytes.resize(bytes.size() + wire::kHeaderBytes, std::byte{0xff});
  const std::size_t noise = bytes.size();
  wire::encode(wire::Heartbeat{}, Term{1}, bytes);
  WireTap tap;
  Heard heard;
  tap.hear(bytes, bytes.size(), heard);
  tap.hear({}, 10, heard);
  EXPECT_TRUE(heard.empty()) << noise;
  WireTap payload_first;
  payload_first.hear({}, 10, heard);
  EXPECT_TRUE(heard.empty());
}

}  // namespace
}  // namespace lockstep::sim
