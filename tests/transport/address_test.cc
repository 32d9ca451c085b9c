#include "transport/address.h"

#include <gtest/gtest.h>

#include <asio/error.hpp>
#include <string>

namespace lockstep::transport {
namespace {

TEST(HostPort, AcceptsNamesAndAddressesOfBothFamilies) {
  const auto name = parse_host_port("example.org:4000");
  ASSERT_TRUE(name.ok());
  EXPECT_EQ(name->host, "example.org");
  EXPECT_EQ(name->port, 4000);
  EXPECT_EQ(parse_host_port("10.0.0.1:1")->host, "10.0.0.1");
  EXPECT_EQ(parse_host_port("[::1]:65535")->host, "::1");
  EXPECT_EQ(parse_host_port(":0")->host, "");
}

TEST(HostPort, SaysWhatIsWrong) {
  const auto says = [](std::string_view text, std::string_view what) {
    const auto parsed = parse_host_port(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().status, Status::kInvalidArgument);
    EXPECT_NE(parsed.error().text.find(what), std::string::npos) << parsed.error().text;
    EXPECT_NE(parsed.error().text.find(text), std::string::npos) << parsed.error().text;
    EXPECT_NE(parsed.error().text.find("expected host:port"), std::string::npos) << parsed.error().text;
  };
  says("", "no port");
  says("host", "no port");
  says("host:", "'' is not a port");
  says("host:http", "'http' is not a port");
  says("host:-1", "'-1' is not a port");
  says("host:65536", "'65536' is not a port");
  says("host:40 ", "'40 ' is not a port");
  says("::1:4000", "brackets");
  says("http://host:4000", "it is a URL; remove 'http://'");
  says("tcp://[::1]:4000/run", "it is a URL; remove 'tcp://'");
  says("[::1:4000", "']'");
  says("[host]:4000", "no IPv6 address");
  says("[fe80::1%lo]:4000", "a zone such as");
}

TEST(Addresses, ConvertToAsioAndBack) {
  for (const char* text : {"127.0.0.1", "255.255.255.255", "::1", "2001:db8::8:800:200c:417a"}) {
    const io::Address address = parse_literal(text, 77);
    ASSERT_NE(address.family, io::Address::Family::kNone) << text;
    EXPECT_EQ(to_address(to_endpoint(address)), address);
  }
}

TEST(Addresses, IPv4SeenThroughIPv6IsIPv4) { EXPECT_EQ(parse_literal("::ffff:10.1.2.3", 5).text(), "10.1.2.3:5"); }

TEST(Addresses, NamesAndScopesAreNotLiterals) {
  for (const char* text : {"", "localhost", "1.2.3", "fe80::1%1", "1.2.3.4.5"}) {
    EXPECT_EQ(parse_literal(text, 1).family, io::Address::Family::kNone) << text;
  }
}

TEST(CloseReasons, MapTheSystemsErrors) {
  const auto of = [](int number) { return close_reason({number, std::system_category()}); };
  EXPECT_EQ(of(ECONNREFUSED), io::CloseReason::kRefused);
  EXPECT_EQ(of(ENETUNREACH), io::CloseReason::kUnreachable);
  EXPECT_EQ(of(EHOSTUNREACH), io::CloseReason::kUnreachable);
  EXPECT_EQ(of(ETIMEDOUT), io::CloseReason::kTimedOut);
  EXPECT_EQ(of(ECONNRESET), io::CloseReason::kReset);
  EXPECT_EQ(of(EPIPE), io::CloseReason::kReset);
  EXPECT_EQ(of(EKEYREJECTED), io::CloseReason::kRejected);
  EXPECT_EQ(of(EMFILE), io::CloseReason::kFailed);
  EXPECT_EQ(close_reason(asio::error::eof), io::CloseReason::kEnd);
}

}  // namespace
}  // namespace lockstep::transport
