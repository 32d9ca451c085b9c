// One thread for many machines: they work, end one by one, and fail together.
#include "transport/reactor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "transport/communicator.h"
#include "transport/coordinator_server.h"

namespace lockstep::transport {
namespace {

constexpr Duration kSoon = seconds(30);  // time limit for events that must happen; a passing test never reaches it

std::size_t threads() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

struct SharedRun {
  explicit SharedRun(std::uint32_t world) {
    CoordinatorServer::Options options;
    options.listen = "127.0.0.1:0";
    options.reactor = Reactor::shared();
    auto started = CoordinatorServer::start(std::move(options));
    EXPECT_TRUE(started.ok());
    server = std::move(*started);
    for (std::uint32_t i = 0; i < world; ++i) {
      CommunicatorOptions peer;
      peer.listen_host = "127.0.0.1";
      peer.peer.founders = world;
      peer.shared_thread = true;
      auto made = Communicator::create(std::move(peer));
      EXPECT_TRUE(made.ok());
      peers.push_back(std::move(*made));
    }
    // a name, so that the resolver's thread takes part
    const std::string address = "localhost:" + std::to_string(server->address().port);
    std::vector<Work> works;
    for (auto& peer : peers) works.push_back(peer->connect(address, kSoon));
    for (const Work& work : works) {
      EXPECT_TRUE(work.wait(kSoon));
      EXPECT_EQ(work.outcome().status, Status::kOk) << work.outcome().text;
    }
  }

  Work all_reduce(std::size_t peer, std::vector<float>& tensor) {
    LaunchArgs args;
    args.collective = wire::Collective::kAllReduce;
    args.type = DataType::kF32;
    args.tensors.push_back({tensor.data(), tensor.data(), tensor.size(), 0});
    auto work = peers[peer]->launch(args);
    EXPECT_TRUE(work.ok());
    return *work;
  }

  // A small transfer, from the one peer to the other.
  Work send(std::size_t peer, std::size_t to, std::vector<float>& tensor) {
    auto work = peers[peer]->send({peers[to]->self(), Tag{7}, DataType::kF32, tensor.data(), tensor.size(), {0}});
    EXPECT_TRUE(work.ok());
    return *work;
  }
  Work receive(std::size_t peer, std::size_t from, std::vector<float>& tensor) {
    auto work = peers[peer]->receive({peers[from]->self(), Tag{7}, DataType::kF32, tensor.data(), tensor.size(), {0}});
    EXPECT_TRUE(work.ok());
    return *work;
  }

  // Every peer contributes ones, each on a thread of its own that waits for the result.
  void reduce_on_threads(int times) {
    std::vector<std::thread> callers;
    for (std::size_t peer = 0; peer < peers.size(); ++peer) {
      callers.emplace_back([this, peer, times] {
        for (int i = 0; i < times; ++i) {
          std::vector<float> tensor(1000, 1.0F);
          const Work work = all_reduce(peer, tensor);
          EXPECT_EQ(work.wait(std::nullopt, nullptr), Waited::kOver);
          EXPECT_EQ(work.outcome().status, Status::kOk) << work.outcome().text;
          EXPECT_EQ(tensor.back(), static_cast<float>(peers.size()));
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
  }

  std::unique_ptr<CoordinatorServer> server;
  std::vector<std::unique_ptr<Communicator>> peers;
};

TEST(Reactor, ManyRunsShareOneThread) {
  std::vector<std::unique_ptr<SharedRun>> runs;
  runs.push_back(std::make_unique<SharedRun>(2));  // the shared thread, and asio's that looks names up
  const std::size_t before = threads();
  for (int i = 0; i < 5; ++i) runs.push_back(std::make_unique<SharedRun>(3));
  EXPECT_EQ(threads(), before);
  for (auto& run : runs) run->reduce_on_threads(3);
}

// The callers run the loop, each as long as it waits. Several wait for one call, and for one of two.
TEST(Reactor, SmallTransfersGoOnWhereSomebodyWaits) {
  SharedRun run(2);
  for (int i = 0; i < 50; ++i) {
    std::vector<float> given(100, static_cast<float>(i));
    std::vector<float> taken(100);
    const std::vector<Work> works{run.receive(1, 0, taken), run.send(0, 1, given)};
    std::thread other([&] { EXPECT_TRUE(works[1].wait(kSoon)); });
    EXPECT_TRUE(wait_any(works, kSoon).has_value());
    EXPECT_TRUE(works[0].wait());
    other.join();
    EXPECT_EQ(taken, given);
  }
}

TEST(Reactor, SmallTransfersGoOnWhereNobodyWaits) {
  SharedRun run(2);
  for (const bool hurries : {false, true}) {
    std::vector<float> given(100, 2.0F);
    std::vector<float> taken(100);
    const Work received = run.receive(1, 0, taken);
    const Work sent = run.send(0, 1, given);
    std::promise<void> ended;
    sent.notify({[](void* user) { static_cast<std::promise<void>*>(user)->set_value(); }, &ended});
    if (hurries) sent.go_on();
    ended.get_future().get();
    while (!received.test()) std::this_thread::yield();
    EXPECT_EQ(taken, given);
  }
}

TEST(Reactor, AMachineThatEndsLeavesTheOthersAlone) {
  SharedRun lives(2);
  for (int i = 0; i < 3; ++i) {
    SharedRun ends(3);
    std::vector<float> tensor(10, 1.0F);
    const Work waits = ends.all_reduce(0, tensor);  // the others never launch it
    ends.peers[0]->close();
    EXPECT_TRUE(waits.test());
    EXPECT_EQ(waits.outcome().status, Status::kOutcomeUnknown);
    ends.server->stop();
    lives.reduce_on_threads(2);
  }
}

TEST(Reactor, IsGoneWithItsLastUser) {
  std::weak_ptr<Reactor> reactor;
  {
    const SharedRun run(2);
    reactor = Reactor::shared();
    EXPECT_FALSE(reactor.expired());
  }
  EXPECT_TRUE(reactor.expired());
}

struct Recorder final : Reactor::User {
  void on_failure(const Error& why) override { failures.push_back(why); }
  std::vector<Error> failures;
};

TEST(Reactor, AHandlerWithoutMemoryEndsAllUsers) {
  Recorder a;
  Recorder b;
  Reactor reactor("test", std::chrono::nanoseconds(0));
  reactor.attach(a);
  reactor.attach(b);
  reactor.post(Reactor::Wake::kOwner, [] { throw std::bad_alloc(); });
  bool asked = false;
  reactor.ask([&] { asked = true; });  // on this thread: no other runs handlers any more
  EXPECT_TRUE(asked);
  EXPECT_TRUE(reactor.over());
  for (Recorder* user : {&a, &b}) {
    ASSERT_EQ(user->failures.size(), 1U);
    EXPECT_EQ(user->failures[0].status, Status::kOutOfMemory);
    reactor.detach(*user);
  }
}

TEST(Reactor, DetachWaitsForHandlersThatWerePostedBefore) {
  Recorder user;
  Reactor reactor("test", std::chrono::nanoseconds(0));
  reactor.attach(user);
  int ran = 0;  // written by handlers only, until detach() has returned
  for (int i = 0; i < 100; ++i) reactor.post(Reactor::Wake::kOwner, [&] { ++ran; });
  reactor.detach(user);
  EXPECT_EQ(ran, 100);
}

}  // namespace
}  // namespace lockstep::transport
