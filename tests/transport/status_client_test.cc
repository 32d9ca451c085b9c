// The status client against servers that are not coordinators; coordinator_server_test.cc uses a real one.
#include "transport/status_client.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <string>
#include <thread>

namespace lockstep::transport {
namespace {

using asio::ip::tcp;

struct Host {
  asio::io_context io;
  tcp::acceptor acceptor{io, {asio::ip::address_v4::loopback(), 0}};
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(acceptor.local_endpoint().port()); }
};

TEST(StatusClient, TheErrorNamesTheAddressThatRefuses) {
  std::string address;
  {
    const Host gone;
    address = gone.address();
  }
  const auto reply = query_status(address, seconds(10));
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().status, Status::kUnreachable);
  EXPECT_NE(reply.error().text.find(address), std::string::npos) << reply.error().text;
  EXPECT_NE(reply.error().text.find("refused"), std::string::npos) << reply.error().text;
}

TEST(StatusClient, ASilentHostTimesOut) {
  const Host silent;
  const auto reply = query_status(silent.address(), milliseconds(50));
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().status, Status::kTimedOut);
}

TEST(StatusClient, GarbageIsAProtocolError) {
  Host other;
  std::thread server([&] {
    tcp::socket socket = other.acceptor.accept();
    std::error_code ignored;
    asio::write(socket, asio::buffer(std::string(4096, 'G')), ignored);
    std::array<char, 64> into{};
    while (!ignored) socket.read_some(asio::buffer(into), ignored);
  });
  const auto reply = query_status(other.address(), seconds(10));
  server.join();
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().status, Status::kProtocolError) << reply.error().text;
}

TEST(StatusClient, ABadAddressIsAnInvalidArgument) {
  EXPECT_EQ(query_status("nonsense", seconds(1)).error().status, Status::kInvalidArgument);
  EXPECT_EQ(query_status("no-such-host.invalid:1", seconds(10)).error().status, Status::kUnreachable);
}

}  // namespace
}  // namespace lockstep::transport
