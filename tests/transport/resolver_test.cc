#include "transport/resolver.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <optional>
#include <string>

namespace lockstep::transport {
namespace {

Resolution resolve_all(std::string_view host_ports) {
  asio::io_context io;
  Resolver resolver(io);
  std::optional<Resolution> answer;
  resolver.resolve(host_ports, [&](Resolution found) { answer.emplace(std::move(found)); });
  EXPECT_FALSE(answer.has_value());  // never called inside resolve()
  io.run();
  return std::move(answer.value());
}

Addresses resolve(std::string_view host_port) { return resolve_all(host_port).addresses; }

TEST(Resolver, LiteralsNeedNoLookup) {
  const auto v4 = resolve("127.0.0.1:4000");
  ASSERT_TRUE(v4.ok());
  ASSERT_EQ(v4->size(), 1U);
  EXPECT_EQ(v4->front().text(), "127.0.0.1:4000");
  EXPECT_EQ(resolve("[::1]:5")->front().text(), "[::1]:5");
}

TEST(Resolver, LocalhostResolvesToLoopback) {
  const auto found = resolve("localhost:4000");
  ASSERT_TRUE(found.ok()) << found.error().text;
  for (const io::Address& address : *found) EXPECT_EQ(address.port, 4000);
}

TEST(Resolver, TheErrorForAnUnknownHostSaysWhatToDo) {
  const auto found = resolve("no-such-host.invalid:4000");  // RFC 6761: never resolves
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().status, Status::kUnreachable);
  EXPECT_NE(found.error().text.find("cannot resolve 'no-such-host.invalid' ("), std::string::npos)
      << found.error().text;
  EXPECT_NE(found.error().text.find("check the host name"), std::string::npos) << found.error().text;
}

TEST(Resolver, OfSeveralNamesThoseWithoutAnAddressAreReported) {
  const Resolution some = resolve_all("no-such-host.invalid:4000,127.0.0.1:4000");
  ASSERT_TRUE(some.addresses.ok());
  EXPECT_EQ(some.addresses->size(), 1U);
  ASSERT_EQ(some.unresolved.size(), 1U);
  EXPECT_NE(some.unresolved.front().find("no-such-host.invalid"), std::string::npos);
  EXPECT_TRUE(resolve_all("127.0.0.1:1,127.0.0.1:2").unresolved.empty());
}

TEST(Resolver, ADialledAddressNeedsAHostAndAPort) {
  for (const char* text : {":4000", "localhost:0", "localhost", "[::1:5"}) {
    const auto found = resolve(text);
    ASSERT_FALSE(found.ok()) << text;
    EXPECT_EQ(found.error().status, Status::kInvalidArgument);
    EXPECT_NE(found.error().text.find(text), std::string::npos) << found.error().text;
  }
}

TEST(Resolver, AnEmptyHostListensOnAllAddresses) {
  const auto zone = resolve_host("fe80::1%lo", 0);
  ASSERT_FALSE(zone.ok());
  EXPECT_EQ(zone.error().status, Status::kInvalidArgument);
  const auto none = resolve_host("", 0);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
}

}  // namespace
}  // namespace lockstep::transport
