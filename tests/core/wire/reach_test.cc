#include "core/wire/reach.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::wire {
namespace {

io::Address address(std::uint8_t host, std::uint16_t port) {
  return {io::Address::Family::kV4, {10, 0, 0, host}, port};
}

// `network`: of its address as the coordinator sees it.
Member member(std::uint64_t id, bool calls_out, std::uint8_t network) {
  Member made;
  made.id = {id, id};
  made.address = address(network, 4000);
  made.calls_out = calls_out;
  made.outside = address(network, 0);
  return made;
}

TEST(Reach, OneOfTwoDials) {
  for (const bool first : {false, true}) {
    for (const bool second : {false, true}) {
      const Member a = member(1, first, 1);
      const Member b = member(2, second, 2);
      EXPECT_NE(dials(a, b), dials(b, a));
      EXPECT_EQ(dials(a, b), first == second ? true : first) << "who cannot be dialled, else the smaller id";
      EXPECT_EQ(can_link(a, b), !(first && second));
      EXPECT_EQ(can_link(b, a), can_link(a, b));
    }
  }
}

TEST(Reach, OneNetworkIsADoorOfItsOwn) {
  Member a = member(1, true, 1);
  Member b = member(2, true, 1);
  a.local = {io::Address::Family::kV4, {192, 168, 1, 2}, 4000};
  b.local = {io::Address::Family::kV4, {192, 168, 1, 3}, 4000};
  EXPECT_TRUE(can_link(a, b));
  EXPECT_EQ(addresses_for(a, b), (std::vector{b.local, b.address}));
  b.calls_out = false;
  EXPECT_EQ(addresses_for(a, b), (std::vector{b.address, b.local})) << "its port is known to be open";
  b.local = {};
  EXPECT_EQ(addresses_for(a, b), std::vector{b.address});
}

TEST(Reach, APrivateAddressOfAnotherNetworkIsNotDialled) {
  Member a = member(1, true, 1);
  Member b = member(2, false, 2);
  b.local = {io::Address::Family::kV4, {192, 168, 1, 3}, 4000};
  EXPECT_FALSE(share_network(a, b));
  EXPECT_EQ(addresses_for(a, b), std::vector{b.address});
  a.outside = b.outside = {};
  EXPECT_FALSE(share_network(a, b)) << "not known";
}

}  // namespace
}  // namespace lockstep::wire
