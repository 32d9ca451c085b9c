// The status client against servers that are not coordinators; coordinator_server_test.cc uses a real one.
#include "transport/status_client.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <string>
#include <system_error>
#include <thread>

#include "transport/address.h"

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

// ---- one address, and what happened there as values ----

io::Address address_of(const Host& host) { return to_address(host.acceptor.local_endpoint()); }

TEST(Inquiry, TellsARefusedConnection) {
  io::Address address;
  {
    const Host gone;
    address = address_of(gone);
  }
  const Inquiry inquiry = inquire(address, {}, seconds(10));
  EXPECT_EQ(inquiry.reply.error().status, Status::kUnreachable);
  EXPECT_FALSE(inquiry.stream.opened);
  EXPECT_EQ(inquiry.stream.closed, io::CloseReason::kRefused);
  EXPECT_FALSE(inquiry.was_refused());  // by no coordinator
  EXPECT_GT(inquiry.elapsed, Duration{});
}

TEST(Inquiry, TellsAnOpenStreamWithoutAnAnswer) {
  const Host silent;
  const Inquiry inquiry = inquire(address_of(silent), {}, milliseconds(50));
  EXPECT_EQ(inquiry.reply.error().status, Status::kTimedOut);
  EXPECT_TRUE(inquiry.stream.opened);
  EXPECT_FALSE(inquiry.stream.closed.has_value());
  EXPECT_EQ(inquiry.stream.first_bytes, "");
}

TEST(Inquiry, TellsTheFirstBytesOfAnotherProgram) {
  Host other;
  std::thread server([&] {
    tcp::socket socket = other.acceptor.accept();
    std::error_code ignored;
    asio::write(socket, asio::buffer(std::string("SSH-2.0-OpenSSH_9.2p1\r\n")), ignored);
    std::array<char, 64> into{};
    while (!ignored) socket.read_some(asio::buffer(into), ignored);
  });
  const Inquiry inquiry = inquire(address_of(other), {}, seconds(10));
  server.join();
  EXPECT_EQ(inquiry.reply.error().status, Status::kProtocolError);
  EXPECT_EQ(inquiry.stream.first_bytes, "SSH-2.0-");
  EXPECT_FALSE(inquiry.was_refused());
}

// query_status() tries again, because strangers may fill the port; an inquiry tells what it has met.
TEST(Inquiry, TellsAnEndedStreamAtOnce) {
  Host other;
  std::thread server([&] {
    tcp::socket socket = other.acceptor.accept();
    std::array<char, 64> into{};
    socket.read_some(asio::buffer(into));
    socket.shutdown(tcp::socket::shutdown_send);
    std::error_code ignored;
    while (!ignored) socket.read_some(asio::buffer(into), ignored);
  });
  const Inquiry inquiry = inquire(address_of(other), {}, seconds(10));
  server.join();
  EXPECT_EQ(inquiry.reply.error().status, Status::kUnreachable);
  EXPECT_TRUE(inquiry.stream.opened);
  EXPECT_EQ(inquiry.stream.closed, io::CloseReason::kEnd);
}

TEST(StatusClient, ABadAddressIsAnInvalidArgument) {
  EXPECT_EQ(query_status("nonsense", seconds(1)).error().status, Status::kInvalidArgument);
  EXPECT_EQ(query_status("no-such-host.invalid:1", seconds(10)).error().status, Status::kUnreachable);
}

}  // namespace
}  // namespace lockstep::transport
