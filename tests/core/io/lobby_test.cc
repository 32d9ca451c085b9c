// Which stream has to go when a listening port is full.
#include "core/io/lobby.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace lockstep::io {
namespace {

Address v4(std::uint8_t last, std::uint16_t port = 1) {
  Address address;
  address.family = Address::Family::kV4;
  address.bytes[0] = 10;
  address.bytes[3] = last;
  address.port = port;
  return address;
}

Address v6(std::uint8_t network, std::uint8_t last) {
  Address address;
  address.family = Address::Family::kV6;
  address.bytes[0] = 0x20;
  address.bytes[7] = network;
  address.bytes[15] = last;
  return address;
}

// Adds a stream and removes the stream that the lobby evicts; returns whether one was evicted.
bool come(Lobby& lobby, std::uint64_t stream, const Address& from) {
  const auto goes = lobby.enter(StreamId{stream}, from);
  if (goes) lobby.leave(*goes);
  return goes.has_value();
}

TEST(Lobby, ANewStreamReplacesTheOldestOne) {
  Lobby lobby(3);
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_FALSE(come(lobby, i, v4(1)));
  EXPECT_EQ(lobby.enter(StreamId{4}, v4(1)), StreamId{1});
  lobby.leave(StreamId{1});
  EXPECT_TRUE(lobby.holds(StreamId{4}));
  EXPECT_EQ(lobby.enter(StreamId{5}, v4(1)), StreamId{2});
}

// Rule 20.
TEST(Lobby, ACrowdEvictsOnlyItsOwnStreams) {
  Lobby lobby(8);
  come(lobby, 1, v4(1));  // alone, and there from the beginning
  come(lobby, 2, v4(2));
  for (std::uint64_t i = 3; i < 1000; ++i) come(lobby, i, v4(3, static_cast<std::uint16_t>(i)));
  EXPECT_TRUE(lobby.holds(StreamId{1}));
  EXPECT_TRUE(lobby.holds(StreamId{2}));
  EXPECT_TRUE(lobby.holds(StreamId{999}));
  EXPECT_EQ(lobby.size(), 8U);
}

// Rule 20.
TEST(Lobby, ExpectedHostsHaveReservedPlaces) {
  Lobby lobby(4);
  lobby.expect({v4(1), v4(2)}, 2);
  for (std::uint64_t i = 1; i <= 2; ++i) come(lobby, i, v4(1));
  for (std::uint64_t i = 3; i <= 4; ++i) come(lobby, i, v4(2));
  // Each from another address, so that the expected hosts hold more places than any of them.
  for (std::uint64_t i = 0; i < 100; ++i) come(lobby, 100 + i, v4(static_cast<std::uint8_t>(100 + i)));
  for (std::uint64_t i = 1; i <= 4; ++i) EXPECT_TRUE(lobby.holds(StreamId{i})) << i;
  EXPECT_EQ(lobby.size(), 8U) << "four of anybody, and two of each expected host";
}

TEST(Lobby, AnIdentifiedStreamTakesNoPlace) {
  Lobby lobby(2);
  come(lobby, 1, v4(1));
  lobby.leave(StreamId{1});
  lobby.leave(StreamId{1});
  EXPECT_FALSE(come(lobby, 2, v4(1)));
  EXPECT_FALSE(come(lobby, 3, v4(1)));
  EXPECT_TRUE(come(lobby, 4, v4(1)));
}

TEST(Lobby, StreamsOfOneNetworkCountTogether) {
  Lobby lobby(4);
  come(lobby, 1, v6(2, 1));
  for (std::uint64_t i = 2; i < 50; ++i) come(lobby, i, v6(1, static_cast<std::uint8_t>(i)));
  EXPECT_TRUE(lobby.holds(StreamId{1}));
  Address mapped;  // ::ffff:10.0.0.1
  mapped.family = Address::Family::kV6;
  mapped.bytes[10] = mapped.bytes[11] = 0xff;
  mapped.bytes[12] = 10;
  mapped.bytes[15] = 1;
  EXPECT_EQ(network_of(mapped), network_of(v4(1)));
  EXPECT_NE(network_of(v4(1)), network_of(v4(2)));
}

}  // namespace
}  // namespace lockstep::io
