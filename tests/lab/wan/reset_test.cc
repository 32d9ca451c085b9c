// Connections that are reset in a WAN in a box: kernels believe it, and Lockstep goes on.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/api.h"
#include "tests/lab/wan/wan_box.h"

namespace lockstep::wan {
namespace {

// A stream from b to a, on which b sends without end.
struct Flood {
  File sender;
  File receiver;
  int send_error = 0;  // that a send has met; the socket tells an error once only

  // Moves what there is to move; false: one end is over. Its error is in the socket, or in send_error.
  [[nodiscard]] bool go_on() {
    std::array<pollfd, 2> places{{{receiver.number(), POLLIN, 0}, {sender.number(), POLLOUT, 0}}};
    EXPECT_GT(::poll(places.data(), places.size(), kLongMs), 0) << "nothing moves";
    if (((places[0].revents | places[1].revents) & (POLLERR | POLLHUP)) != 0) return false;
    std::array<char, 16'384> piece{};
    if (places[0].revents != 0 && ::recv(receiver.number(), piece.data(), piece.size(), 0) == 0) return false;
    if (places[1].revents != 0 && ::send(sender.number(), piece.data(), piece.size(), MSG_NOSIGNAL) < 0 &&
        errno != EAGAIN) {
      send_error = errno;
      return false;
    }
    return !::testing::Test::HasFailure();
  }
};

// Until the socket has failed: as what.
int failure_of(const File& file) {
  pollfd place{file.number(), POLLRDHUP, 0};
  EXPECT_EQ(::poll(&place, 1, kLongMs), 1) << "nothing has happened to it";
  int error = 0;
  socklen_t size = sizeof error;
  EXPECT_EQ(::getsockopt(file.number(), SOL_SOCKET, SO_ERROR, &error, &size), 0);
  return error;
}

class WanReset : public WanBox {
 protected:
  void open(std::vector<Flood>& floods, std::size_t count) {
    const sockaddr_in at = endpoint(1);
    const auto socket_of = [&](std::uint32_t host) {
      return box->host(host).within(
          [] { return File(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); });
    };
    const File listener = socket_of(1);
    ASSERT_EQ(::bind(listener.number(), raw(at), sizeof at), 0) << std::strerror(errno);
    ASSERT_EQ(::listen(listener.number(), 4), 0);
    for (std::size_t i = 0; i < count; ++i) {
      Flood flood{socket_of(2), File(), 0};
      const int done = ::connect(flood.sender.number(), raw(at), sizeof at);
      ASSERT_TRUE(done == 0 || errno == EINPROGRESS) << std::strerror(errno);
      pollfd place{listener.number(), POLLIN, 0};
      ASSERT_EQ(::poll(&place, 1, kLongMs), 1);
      flood.receiver = File(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      floods.push_back(std::move(flood));
    }
  }
  std::uint64_t carried() {
    return box->forwarder().with_connections([](const Connections& c) { return c.carried(2, 1); });
  }
};

TEST_F(WanReset, BothEndsOfTheBusiestBelieveItInTheMidstOfDataAndTheOtherGoesOn) {
  if (!make("peers = 2\nnet = { latency = \"5ms\", up = \"50Mbit/s\", loss = \"0.2%\" }")) return;
  std::vector<Flood> floods;
  open(floods, 2);
  if (HasFailure()) return;
  while (carried() < 500'000) ASSERT_TRUE(floods[1].go_on());
  ASSERT_TRUE(box->forwarder().reset(1, 2));
  EXPECT_EQ(failure_of(floods[1].receiver), ECONNRESET);
  EXPECT_EQ(failure_of(floods[1].sender), ECONNRESET);
  const std::uint64_t so_far = carried();
  while (carried() < so_far + 100'000) ASSERT_TRUE(floods[0].go_on());
  const std::vector<Forwarder::Reset> resets = box->forwarder().resets();
  ASSERT_EQ(resets.size(), 1U);
  EXPECT_GT(resets[0].record.carried, 400'000U);
  EXPECT_EQ(resets[0].record.port_a, kPort);
}

TEST_F(WanReset, ATopologyResetsAtItsTime) {
  if (!make("peers = 2\n[[do]]\nat = \"200ms\"\nreset = \"a -> b\"\ntimes = 2\nevery = \"100ms\"")) return;
  std::vector<Flood> floods;
  open(floods, 1);
  if (HasFailure()) return;
  while (floods[0].go_on()) {
  }
  const int error = floods[0].send_error != 0 ? floods[0].send_error : failure_of(floods[0].sender);
  EXPECT_EQ(error, ECONNRESET);
  box->forwarder().wait_until([&](const Network& network) { return network.next() == kNever; });
  const std::vector<Forwarder::Reset> resets = box->forwarder().resets();
  ASSERT_EQ(resets.size(), 2U);
  EXPECT_TRUE(resets[0].record.hit);
  EXPECT_GE(resets[0].at, milliseconds(200));
  EXPECT_FALSE(resets[1].record.hit);  // no other connection
  EXPECT_GE(resets[1].at, milliseconds(300));
}

// ---- Lockstep ----

class Member {
 public:
  Member(const Box& box, std::uint32_t host) {
    lockstep_comm_options options = LOCKSTEP_COMM_OPTIONS_INIT;
    options.founders = 2;
    options.stripes = 4;
    comm_ = box.host(host).within([&] { return cli::create_comm(options); });
  }
  void connect(const std::string& coordinator) {
    cli::check(lockstep_connect_async(comm_.get(), coordinator.c_str(), kLongMs, &work_), "connect");
  }
  void all_reduce(const std::vector<float>& from) {
    sum.assign(from.size(), 0);
    lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
    args.send = from.data();
    args.recv = sum.data();
    args.count = from.size();
    args.type = LOCKSTEP_F32;
    args.op = LOCKSTEP_SUM;
    cli::check(lockstep_all_reduce_async(comm_.get(), &args, &work_), "all_reduce");
  }
  lockstep_result wait() {
    lockstep_result result = LOCKSTEP_RESULT_INIT;
    (void)lockstep_wait(work_, LOCKSTEP_FOREVER, &result);
    lockstep_work_free(std::exchange(work_, nullptr));
    return result;
  }
  std::vector<float> sum;

 private:
  cli::Comm comm_;
  lockstep_work* work_ = nullptr;
};

TEST_F(WanReset, ACallInWhoseMidstAStreamIsResetEndsRightInItsFirstAttempt) {
  if (!make("peers = 2\nnet = { latency = \"10ms\", up = \"200Mbit/s\" }")) return;
  lockstep_coordinator_options options = LOCKSTEP_COORDINATOR_OPTIONS_INIT;
  const std::string listen = address_of(0) + ":0";
  options.listen = listen.c_str();
  std::string address;
  const auto coordinator = box->host(0).within([&] { return cli::start_coordinator(options, address); });
  Member a(*box, 1);
  Member b(*box, 2);
  a.connect(address);
  b.connect(address);
  ASSERT_EQ(a.wait().status, LOCKSTEP_OK);
  ASSERT_EQ(b.wait().status, LOCKSTEP_OK);

  constexpr std::size_t kCount = 2 << 20;  // 8 MiB to each, in 0.4 s
  std::vector<float> of_a(kCount);
  std::vector<float> of_b(kCount);
  std::vector<float> right(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    of_a[i] = static_cast<float>(i % 1000);
    of_b[i] = static_cast<float>(i % 77) * 3;
    right[i] = of_a[i] + of_b[i];
  }
  // One stream while the sums go up, one while they come down.
  box->forwarder().with_connections([](Connections& connections) {
    connections.reset_after(1, 2, 2U << 20U);
    connections.reset_after(2, 1, 6U << 20U);
  });
  a.all_reduce(of_a);
  b.all_reduce(of_b);
  for (Member* const member : {&a, &b}) {
    const lockstep_result result = member->wait();
    EXPECT_EQ(result.status, LOCKSTEP_OK);
    EXPECT_EQ(result.world_size, 2U);
    EXPECT_EQ(result.retries, 0U);
    EXPECT_TRUE(member->sum == right);
  }
  const std::vector<Forwarder::Reset> resets = box->forwarder().resets();
  ASSERT_EQ(resets.size(), 2U);
  for (const Forwarder::Reset& reset : resets) {
    EXPECT_TRUE(reset.record.hit);
    EXPECT_FALSE(reset.record.answered_late);
  }
}

}  // namespace
}  // namespace lockstep::wan
