#include "transport/coordinator_server.h"

#include <gtest/gtest.h>

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <string>

#include "core/wire/limits.h"
#include "transport/address.h"
#include "transport/status_client.h"

namespace lockstep::transport {
namespace {

using asio::ip::tcp;

Result<std::unique_ptr<CoordinatorServer>> start(std::string listen) {
  CoordinatorServer::Options options;
  options.listen = std::move(listen);
  return CoordinatorServer::start(std::move(options));
}

TEST(CoordinatorServer, TellsItsStatus) {
  const auto server = start("127.0.0.1:0");
  ASSERT_TRUE(server.ok()) << server.error().text;
  const auto reply = query_status((*server)->address().text(), seconds(10));
  ASSERT_TRUE(reply.ok()) << reply.error().text;
  EXPECT_TRUE(reply->view.members.empty());
  EXPECT_TRUE((*server)->snapshot().waiting.empty());
  (*server)->stop();
  EXPECT_TRUE((*server)->snapshot().waiting.empty());
}

TEST(CoordinatorServer, ListensOnAllAddressesWithoutAHost) {
  for (const char* listen : {":0", "*:0"}) {
    const auto server = start(listen);
    ASSERT_TRUE(server.ok()) << server.error().text;
    const std::string port = std::to_string((*server)->address().port);
    EXPECT_TRUE(query_status((*server)->token(), seconds(10)).ok());
    const auto plain = query_status("127.0.0.1:" + port, seconds(10));
    ASSERT_FALSE(plain.ok());
    EXPECT_NE(plain.error().text.find("run token"), std::string::npos) << plain.error().text;
  }
}

TEST(CoordinatorServer, TheErrorForAnAddressInUseSaysWhatToDo) {
  const auto first = start("127.0.0.1:0");
  ASSERT_TRUE(first.ok());
  const std::string address = (*first)->address().text();
  const auto second = start(address);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().text.find(address), std::string::npos) << second.error().text;
  EXPECT_NE(second.error().text.find("choose another port"), std::string::npos) << second.error().text;
}

TEST(CoordinatorServer, BadAddressesAreRefused) {
  EXPECT_EQ(start("nonsense").error().status, Status::kInvalidArgument);
  EXPECT_EQ(start("no-such-host.invalid:0").error().status, Status::kUnreachable);
}

TEST(CoordinatorServer, CanBeStartedAgainAtItsAddress) {
  auto first = start("127.0.0.1:0");
  ASSERT_TRUE(first.ok());
  const std::string address = (*first)->address().text();
  EXPECT_TRUE(query_status(address, seconds(10)).ok());  // leaves a connection in TIME_WAIT
  (*first)->stop();
  first = Error{};
  const auto second = start(address);
  EXPECT_TRUE(second.ok()) << second.error().text;
}

// A stream with garbage ends; no other stream is affected.
TEST(CoordinatorServer, GarbageEndsOnlyTheStreamOfItsSender) {
  const auto server = start("127.0.0.1:0");
  ASSERT_TRUE(server.ok());
  asio::io_context io;
  for (const char fill : {'\0', 'G', '\xff'}) {
    tcp::socket stranger(io);
    stranger.connect(to_endpoint((*server)->address()));
    std::error_code error;
    asio::write(stranger, asio::buffer(std::string(100'000, fill)), error);
    std::array<char, 4096> into{};
    while (!error) stranger.read_some(asio::buffer(into), error);  // until the coordinator ends it
    EXPECT_TRUE(query_status((*server)->address().text(), seconds(10)).ok());
  }
}

TEST(CoordinatorServer, SilentStrangersAreLimitedAndDisconnected) {
  CoordinatorServer::Options options;
  options.listen = "127.0.0.1:0";
  options.machine.greeting = milliseconds(200);
  const auto server = CoordinatorServer::start(std::move(options));
  ASSERT_TRUE(server.ok());
  asio::io_context io;
  std::vector<tcp::socket> strangers;
  for (std::uint32_t i = 0; i < kMaxStrangers + 20; ++i) {
    strangers.emplace_back(io);
    strangers.back().connect(to_endpoint((*server)->address()));
  }
  for (tcp::socket& stranger : strangers) {
    std::error_code error;
    std::array<char, 4096> into{};
    while (!error) stranger.read_some(asio::buffer(into), error);
  }
  EXPECT_TRUE(query_status((*server)->address().text(), seconds(10)).ok());
}

}  // namespace
}  // namespace lockstep::transport
