#include "core/io/stream.h"

#include <gtest/gtest.h>

namespace lockstep::io {
namespace {

Address v4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d, std::uint16_t port) {
  return {Address::Family::kV4, {a, b, c, d}, port};
}

Address v6(const std::array<std::uint16_t, 8>& groups, std::uint16_t port) {
  Address address{Address::Family::kV6, {}, port};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    address.bytes[2 * i] = static_cast<std::uint8_t>(groups[i] >> 8U);
    address.bytes[2 * i + 1] = static_cast<std::uint8_t>(groups[i] & 0xffU);
  }
  return address;
}

TEST(AddressText, NoAddressIsNone) { EXPECT_EQ(Address{}.text(), "none"); }

TEST(AddressText, V4) {
  EXPECT_EQ(v4(127, 0, 0, 1, 4000).text(), "127.0.0.1:4000");
  EXPECT_EQ(v4(255, 255, 255, 255, 65535).text(), "255.255.255.255:65535");
  EXPECT_EQ(v4(0, 0, 0, 0, 0).text(), "0.0.0.0:0");
  EXPECT_EQ(v4(10, 20, 100, 9, 80).text(), "10.20.100.9:80");
}

TEST(AddressText, V6FollowsRfc5952) {
  EXPECT_EQ(v6({0, 0, 0, 0, 0, 0, 0, 0}, 1).text(), "[::]:1");
  EXPECT_EQ(v6({0, 0, 0, 0, 0, 0, 0, 1}, 4000).text(), "[::1]:4000");
  EXPECT_EQ(v6({1, 0, 0, 0, 0, 0, 0, 0}, 4000).text(), "[1::]:4000");
  // 4.1: no leading zeros. 4.3: lower case.
  EXPECT_EQ(v6({0x2001, 0xdb8, 0, 0, 0, 0, 0xabcd, 0x0f}, 443).text(), "[2001:db8::abcd:f]:443");
  // 4.2.2: one group of zeros is not shortened.
  EXPECT_EQ(v6({0x2001, 0xdb8, 0, 1, 1, 1, 1, 1}, 443).text(), "[2001:db8:0:1:1:1:1:1]:443");
  // 4.2.3: the longest run is shortened, the first of equals.
  EXPECT_EQ(v6({0x2001, 0, 0, 1, 0, 0, 0, 1}, 443).text(), "[2001:0:0:1::1]:443");
  EXPECT_EQ(v6({0x2001, 0xdb8, 0, 0, 1, 0, 0, 1}, 443).text(), "[2001:db8::1:0:0:1]:443");
  EXPECT_EQ(v6({1, 2, 3, 4, 5, 6, 7, 8}, 443).text(), "[1:2:3:4:5:6:7:8]:443");
  EXPECT_EQ(v6({0, 0, 3, 4, 5, 6, 7, 8}, 443).text(), "[::3:4:5:6:7:8]:443");
  EXPECT_EQ(v6({1, 2, 3, 4, 5, 6, 0, 0}, 443).text(), "[1:2:3:4:5:6::]:443");
}

TEST(AddressText, V4InsideV6IsReadable) {
  EXPECT_EQ(v6({0, 0, 0, 0, 0, 0xffff, 0xc000, 0x0201}, 7).text(), "[::ffff:192.0.2.1]:7");
}

TEST(StreamNames, DialledIdsAreEvenAcceptedIdsAreOdd) {
  auto dialled = StreamNames::for_dialling();
  auto accepted = StreamNames::for_accepting();
  EXPECT_EQ(dialled.next().value, 2U);
  EXPECT_EQ(dialled.next().value, 4U);
  EXPECT_EQ(accepted.next().value, 1U);
  EXPECT_EQ(accepted.next().value, 3U);
}

TEST(SliceList, CountsBytesOfBothKinds) {
  const std::array<std::byte, 5> header{};
  SliceList list;
  list.push({header, {}});
  list.push({{}, {BufferId{1}, 0, 100}});
  EXPECT_EQ(list.all().size(), 2U);
  EXPECT_EQ(list.bytes(), 105U);
  EXPECT_FALSE(list.full());
}

}  // namespace
}  // namespace lockstep::io
