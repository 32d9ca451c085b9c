// For tests that need a WAN in a box. Skipped where namespaces or TUN devices are not allowed.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tests/lab/wan/box.h"

namespace lockstep::wan {

inline constexpr std::uint16_t kPort = 4000;
inline constexpr int kLongMs = 20'000;  // nothing takes so long

// Where programs in the box listen or send to: on this port of a host.
inline sockaddr_in endpoint(std::uint32_t host) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  ::inet_pton(AF_INET, address_of(host).c_str(), &address.sin_addr);
  return address;
}

inline const sockaddr* raw(const sockaddr_in& address) { return reinterpret_cast<const sockaddr*>(&address); }

class WanBox : public ::testing::Test {
 protected:
  // Makes the box and starts it. False: the test is over, as there can be none here, or as it has failed.
  bool make(const std::string& toml) {
    try_to_make(toml);
    return box != nullptr;
  }

  std::unique_ptr<Box> box;

 private:
  void try_to_make(const std::string& toml) {
    auto made = Box::make(*topology_from_text(toml));
    if (!made && made.error().status == Status::kRefused) GTEST_SKIP() << made.error().text;
    ASSERT_TRUE(made) << made.error().text;
    box = std::move(*made);
    box->start();
  }
};

}  // namespace lockstep::wan
