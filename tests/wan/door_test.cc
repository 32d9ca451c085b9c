// What the transport's door does to streams depends on their path: it takes a long one to see it.
#include "transport/door.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <asio/io_context.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "tests/wan/wan_box.h"
#include "transport/address.h"

namespace lockstep::wan {
namespace {

using transport::Door;
using transport::Socket;

bool is_paced(Socket& socket) {
  std::uint64_t most = 0;
  socklen_t size = sizeof most;
  EXPECT_EQ(::getsockopt(socket.native_handle(), SOL_SOCKET, SO_MAX_PACING_RATE, &most, &size), 0);
  return most != UINT64_MAX;
}

// A stream from one door to another.
struct Stream {
  // `listener` and `dialler` call what they are given, where that end is.
  template <typename Listener, typename Dialler>
  void connect(const std::string& address, Listener listener, Dialler dialler) {
    transport::ListenPlan plan;
    plan.hosts.push_back(transport::to_address({asio::ip::make_address(address), 0}));
    const auto at = listener(
        [&] { return listens.listen(plan, [&](Socket socket, const io::Address&) { accepted = std::move(socket); }); });
    ASSERT_TRUE(at.ok());
    bool open = false;
    dialler([&] {
      dials.dial(dialled, *at, [&](std::error_code error) {
        EXPECT_FALSE(error) << error.message();
        open = true;
      });
    });
    while (!open || !accepted) io.run_one();
  }

  asio::io_context io;
  Door listens{io, {}, {}};
  Door dials{io, {}, {}};
  Socket dialled{io};
  std::optional<Socket> accepted;
};

TEST_F(WanBox, ALongPathIsPacedAtBothEnds) {
  if (!make("peers = 2\nnet = { latency = \"10ms\" }")) return;
  Stream stream;
  stream.connect(
      address_of(1), [&](auto body) { return box->host(1).within(body); },
      [&](auto body) { box->host(2).within(body); });
  EXPECT_TRUE(is_paced(stream.dialled));
  EXPECT_TRUE(is_paced(*stream.accepted));
}

TEST(Door, LoopbackIsNotPaced) {
  Stream stream;
  stream.connect(
      "127.0.0.1", [](auto body) { return body(); }, [](auto body) { body(); });
  EXPECT_FALSE(is_paced(stream.dialled));
  EXPECT_FALSE(is_paced(*stream.accepted));
}

}  // namespace
}  // namespace lockstep::wan
