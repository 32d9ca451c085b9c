// Whole communicators in one process with a coordinator on loopback.
#include "transport/communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/wire/limits.h"
#include "transport/coordinator_server.h"

namespace lockstep::transport {
namespace {

constexpr Duration kLong = seconds(30);  // time limit for events that must happen; a passing test never reaches it

std::unique_ptr<CoordinatorServer> coordinator() {
  CoordinatorServer::Options options;
  options.listen = "127.0.0.1:0";
  auto server = CoordinatorServer::start(std::move(options));
  EXPECT_TRUE(server.ok()) << server.error().text;
  return std::move(*server);
}

CommunicatorOptions founders(std::uint32_t count) {
  CommunicatorOptions options;
  options.listen_host = "127.0.0.1";
  options.peer.founders = count;
  return options;
}

std::unique_ptr<Communicator> create(CommunicatorOptions options) {
  auto made = Communicator::create(std::move(options));
  EXPECT_TRUE(made.ok()) << made.error().text;
  return std::move(*made);
}

::testing::AssertionResult ends_with(const Work& work, Status status) {
  if (!work.wait(kLong)) return ::testing::AssertionFailure() << "the call does not end";
  if (work.outcome().status == status) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << status_name(work.outcome().status) << ": " << work.outcome().text;
}

// A run of `world` peers.
struct Party {
  explicit Party(std::uint32_t world) {
    for (std::uint32_t i = 0; i < world; ++i) {
      auto options = founders(world);
      options.peer.name = std::string(1, static_cast<char>('a' + i));
      peers.push_back(create(std::move(options)));
    }
    std::vector<Work> works;
    for (auto& peer : peers) works.push_back(peer->connect(server->address().text(), kLong));
    for (const Work& work : works) EXPECT_TRUE(ends_with(work, Status::kOk));
  }

  std::unique_ptr<CoordinatorServer> server = coordinator();
  std::vector<std::unique_ptr<Communicator>> peers;
};

LaunchArgs all_reduce(const std::vector<float>& send, std::vector<float>& recv, std::uint64_t tag = 0) {
  LaunchArgs args;
  args.collective = wire::Collective::kAllReduce;
  args.type = DataType::kF32;
  args.tag = Tag{tag};
  args.tensors.push_back({send.data(), recv.data(), send.size(), 0});
  return args;
}

TEST(Communicator, TwoPeersAllReduceAndLeave) {
  Party run(2);
  for (const auto& peer : run.peers) {
    ASSERT_NE(peer->view(), nullptr);
    EXPECT_EQ(peer->view()->members.size(), 2U);
    EXPECT_EQ(peer->pending(), 0U);
  }
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{1'000'003}}) {
    const std::vector<float> ones(count, 1.5F);
    const std::vector<float> twos(count, 2.25F);
    std::vector<float> at_a(count);
    std::vector<float> at_b(count);
    const auto a = run.peers[0]->launch(all_reduce(ones, at_a));
    const auto b = run.peers[1]->launch(all_reduce(twos, at_b));
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_TRUE(ends_with(*a, Status::kOk));
    EXPECT_TRUE(ends_with(*b, Status::kOk));
    EXPECT_EQ(at_a, std::vector<float>(count, 3.75F));
    EXPECT_EQ(at_b, at_a);
    EXPECT_EQ(a->outcome().hash, b->outcome().hash);
    EXPECT_EQ(a->outcome().world, 2U);
  }
  EXPECT_GT(run.peers[0]->traffic().sent, 4'000'000U);
  for (const auto& peer : run.peers) EXPECT_EQ(peer->footprint().buffers, 0U);

  const Work first = run.peers[0]->leave(kLong);
  const Work second = run.peers[1]->leave(kLong);
  EXPECT_TRUE(ends_with(first, Status::kOk));
  EXPECT_TRUE(ends_with(second, Status::kOk));
}

TEST(Communicator, InPlaceUsesScratchAndKeepsItForTheNextCall) {
  Party run(3);
  std::vector<std::vector<float>> tensors(3, std::vector<float>(300'000, 2.0F));
  for (int repeat = 0; repeat < 2; ++repeat) {
    std::vector<Work> works;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto work = run.peers[i]->launch(all_reduce(tensors[i], tensors[i]));
      ASSERT_TRUE(work.ok());
      works.push_back(*work);
    }
    for (const Work& work : works) EXPECT_TRUE(ends_with(work, Status::kOk));
  }
  for (const auto& tensor : tensors) EXPECT_EQ(tensor, std::vector<float>(300'000, 18.0F));
  EXPECT_EQ(run.peers[0]->footprint().scratch_bytes, 0U);
  EXPECT_GE(run.peers[0]->footprint().cached_bytes, 1'200'000U);
}

TEST(Communicator, SurvivorsContinueAfterAPeerDied) {
  Party run(3);
  std::vector<std::vector<float>> tensors(3, std::vector<float>(1000, 1.0F));
  std::vector<std::vector<float>> results(3, std::vector<float>(1000));
  std::vector<Work> works;
  for (std::size_t i = 0; i < 2; ++i) works.push_back(*run.peers[i]->launch(all_reduce(tensors[i], results[i])));
  run.peers[2].reset();
  for (const Work& work : works) {
    EXPECT_TRUE(ends_with(work, Status::kOk));
    EXPECT_EQ(work.outcome().world, 2U);
  }
  EXPECT_EQ(results[0], std::vector<float>(1000, 2.0F));
  EXPECT_EQ(results[1], results[0]);
}

TEST(Communicator, DestroyingItEndsItsCalls) {
  Party run(2);
  std::vector<float> tensor(1000, 1.0F);
  std::vector<float> result(1000);
  const auto work = run.peers[0]->launch(all_reduce(tensor, result));
  ASSERT_TRUE(work.ok());
  EXPECT_FALSE(work->wait(Duration{0}));
  run.peers[0].reset();
  ASSERT_TRUE(work->test());
  EXPECT_EQ(work->outcome().status, Status::kOutcomeUnknown);
  EXPECT_NE(work->outcome().text.find("destroyed"), std::string::npos) << work->outcome().text;
}

// Destroys a peer after it has received `come` bytes, while another peer has not launched the call: no other peer can
// end the call.
void destroy_in_mid_call(std::size_t count, std::uint64_t come, Communicator::Then then) {
  Party run(3);
  std::vector<std::vector<float>> tensors(3, std::vector<float>(count));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (std::size_t k = 0; k < count; ++k) tensors[i][k] = static_cast<float>(k % 1000 + i);
  }
  const auto inputs = tensors;
  std::vector<std::optional<Work>> works(3);
  const auto launch = [&](std::size_t i, Communicator::Then next) {
    const auto work = run.peers[i]->launch(all_reduce(tensors[i], tensors[i]), next);
    ASSERT_TRUE(work.ok());
    works[i] = *work;
  };
  std::vector<std::uint64_t> before;
  for (const auto& peer : run.peers) before.push_back(peer->traffic().received);
  launch(0, Communicator::Then::kGoOn);
  launch(1, then);
  std::size_t victim = 1;
  if (then == Communicator::Then::kGoOn) {  // one of the two is the downstream neighbour of the other
    const auto has_come = [&](std::size_t i) { return run.peers[i]->traffic().received - before[i] >= come; };
    while (!has_come(0) && !has_come(1)) std::this_thread::yield();
    victim = has_come(0) ? 0 : 1;
  }
  run.peers[victim].reset();
  ASSERT_TRUE(works[victim]->test());
  EXPECT_EQ(works[victim]->outcome().status, Status::kOutcomeUnknown);
  EXPECT_TRUE(tensors[victim] == inputs[victim]) << "after " << come << " bytes";

  launch(2, Communicator::Then::kGoOn);
  for (const std::size_t other : {1 - victim, std::size_t{2}}) {
    ASSERT_TRUE(ends_with(*works[other], Status::kOk));
    EXPECT_EQ(works[other]->outcome().world, 2U);
    EXPECT_EQ(tensors[other].back(), inputs[1 - victim].back() + inputs[2].back());
  }
}

TEST(Communicator, DestroyingItRestoresAnInPlaceInput) {
  constexpr std::size_t kCount = 1'000'000;
  std::mt19937_64 random(7);
  for (int repeat = 0; repeat < 20; ++repeat) {
    // a third of the bytes arrives: 4/3 of the tensor is sent
    destroy_in_mid_call(kCount, 1 + random() % kCount, Communicator::Then::kGoOn);
  }
}

// The engine's thread sleeps, because the caller is about to run the engine.
TEST(Communicator, DestroyingItInsteadOfWaitingEndsTheCall) { destroy_in_mid_call(1000, 0, Communicator::Then::kWait); }

TEST(Communicator, DestroyingItDuringAReductionLeavesTheResultOrTheInput) {
  Party run(3);
  constexpr std::size_t kCount = 500'000;
  std::mt19937_64 random(8);
  while (run.peers.size() > 1) {
    const auto world = static_cast<float>(run.peers.size());
    std::vector<std::vector<float>> tensors(run.peers.size(), std::vector<float>(kCount, 1.0F));
    std::vector<Work> works;
    const std::uint64_t before = run.peers.back()->traffic().received;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      works.push_back(*run.peers[i]->launch(all_reduce(tensors[i], tensors[i])));
    }
    const std::uint64_t come = random() % (sizeof(float) * kCount);
    while (!works.back().test() && run.peers.back()->traffic().received - before < come) std::this_thread::yield();
    run.peers.pop_back();
    ASSERT_TRUE(works.back().test());
    const Status status = works.back().outcome().status;
    const bool committed = status == Status::kOk;
    EXPECT_TRUE(committed || status == Status::kOutcomeUnknown) << works.back().outcome().text;
    EXPECT_TRUE(tensors.back() == std::vector<float>(kCount, committed ? world : 1.0F));
    for (std::size_t i = 0; i + 1 < works.size(); ++i) {
      ASSERT_TRUE(ends_with(works[i], Status::kOk));
      const auto contributed = static_cast<float>(works[i].outcome().world);
      EXPECT_TRUE(tensors[i] == std::vector<float>(kCount, contributed));
    }
  }
}

TEST(Communicator, DestroyingItReportsAnUnchangedStateAsDefined) {
  for (const auto strategy : {state::Strategy::kPopular, state::Strategy::kSendOnly}) {
    Party run(2);
    std::vector<float> tensor(1000, 1.0F);
    auto state = std::make_shared<state::Statement>();
    state->manifest.tensors = {{"w", DataType::kF32, tensor.size(), false}};
    state->strategy = strategy;
    LaunchArgs args;
    args.collective = wire::Collective::kSync;
    args.state = state;
    args.tensors.push_back({nullptr, tensor.data(), 4 * tensor.size(), 4 * tensor.size()});
    const auto work = run.peers[0]->launch(args);
    ASSERT_TRUE(work.ok()) << work.error().text;
    (void)run.peers[0]->footprint();  // returns once the engine has processed the launch
    run.peers[0].reset();
    EXPECT_EQ(work->outcome().status, Status::kOutcomeUnknown);
    EXPECT_TRUE(work->outcome().state_defined);
  }
}

TEST(Communicator, ACallCanBeStoppedByAnotherThread) {
  Party run(2);
  std::vector<float> tensor(1000, 1.0F);
  std::vector<float> result(1000);
  const auto work = run.peers[0]->launch(all_reduce(tensor, result));
  ASSERT_TRUE(work.ok());
  std::thread other([&] { run.peers[0]->stop(*work, "changed our mind"); });
  EXPECT_TRUE(ends_with(*work, Status::kAborted));
  other.join();
  EXPECT_NE(work->outcome().text.find("changed our mind"), std::string::npos) << work->outcome().text;
  run.peers[0]->stop(*work, "it is over");  // no effect: the call is over
}

// Repeats a call until it ends at most 20 ms after its time-out. Other programs may take the processor once, but not in
// ten calls in a row. No call ends early.
template <typename Begin>
void times_out_on_time(const char* what, Duration timeout, const Begin& begin) {
  SCOPED_TRACE(what);
  Duration least_late = seconds(1000);
  for (int tries = 0; tries < 10 && least_late > milliseconds(20); ++tries) {
    const Work work = begin();
    ASSERT_TRUE(ends_with(work, Status::kTimedOut));
    ASSERT_GE(work.elapsed().ns, timeout.ns) << work.outcome().text;
    least_late = std::min(least_late, work.elapsed() - timeout);
  }
  EXPECT_LE(least_late.ns, milliseconds(20).ns);
}

// Whichever peer waits, and whatever for.
TEST(Communicator, ATimeOutIsNeverEarlyAndHardlyLate) {
  Party run(3);
  std::vector<float> tensor(300'000, 1.0F);  // a small one is sent before its receiver calls
  std::vector<float> result(tensor.size());
  std::uint64_t tag = 0;
  for (std::size_t i = 0; i < run.peers.size(); ++i) {
    Communicator& waiting = *run.peers[i];
    TransferArgs transfer{
        run.peers[(i + 1) % run.peers.size()]->self(), Tag{1}, DataType::kF32, result.data(), result.size(), {}};
    for (const Duration timeout : {milliseconds(1), milliseconds(70)}) {
      SCOPED_TRACE("peer " + std::to_string(i) + ", " + std::to_string(timeout.ns) + " ns");
      times_out_on_time("all_reduce", timeout, [&] {
        LaunchArgs args = all_reduce(tensor, result, ++tag);  // nobody else calls it
        args.timeout = timeout;
        return *waiting.launch(args);
      });
      transfer.timeout = timeout;
      times_out_on_time("send", timeout, [&] { return *waiting.send(transfer); });
      times_out_on_time("receive", timeout, [&] { return *waiting.receive(transfer); });
      times_out_on_time("admit", timeout, [&] { return waiting.admit(4, timeout); });
    }
  }
}

TEST(Communicator, ConnectTimesOutOnTime) {
  const auto server = coordinator();
  times_out_on_time("connect", milliseconds(100), [&] {
    const auto alone = create(founders(2));
    Work work = alone->connect(server->address().text(), milliseconds(100));
    EXPECT_TRUE(work.wait(kLong));
    return work;
  });
}

TEST(Communicator, TheErrorNamesACoordinatorThatCannotBeReached) {
  std::string address;
  {
    const auto gone = coordinator();
    address = gone->address().text();
  }
  const auto peer = create(founders(1));
  const Work refused = peer->connect(address, milliseconds(200));
  EXPECT_TRUE(ends_with(refused, Status::kUnreachable));
  EXPECT_NE(refused.outcome().text.find(address + ": connection refused), tried "), std::string::npos)
      << refused.outcome().text;

  const auto lost = create(founders(1));
  const Work unknown = lost->connect("no-such-host.invalid:4000", seconds(2));
  EXPECT_TRUE(ends_with(unknown, Status::kUnreachable));
  EXPECT_NE(unknown.outcome().text.find("cannot resolve 'no-such-host.invalid'"), std::string::npos)
      << unknown.outcome().text;

  const auto confused = create(founders(1));
  EXPECT_TRUE(ends_with(confused->connect("nonsense", seconds(20)), Status::kInvalidArgument));
  EXPECT_TRUE(ends_with(confused->connect(address, milliseconds(200)), Status::kUnreachable)) << "it may try again";
}

TEST(Communicator, ConnectWaitsForACoordinatorThatStartsLater) {
  std::string address;
  {
    const auto gone = coordinator();
    address = gone->address().text();
  }
  std::promise<void> tried;
  CommunicatorOptions options = founders(1);
  options.log = [&](std::string_view line) {
    if (line.find("unanswered") != std::string_view::npos) tried.set_value();
  };
  const auto peer = create(std::move(options));
  const Work work = peer->connect(address);
  tried.get_future().wait();
  EXPECT_FALSE(work.test());
  CoordinatorServer::Options late;
  late.listen = address;
  const auto started = CoordinatorServer::start(std::move(late));
  ASSERT_TRUE(started.ok()) << started.error().text;
  EXPECT_TRUE(ends_with(work, Status::kOk));
}

TEST(Communicator, CallsOutsideARunEndAtOnce) {
  const auto peer = create(founders(1));
  std::vector<float> tensor(10, 1.0F);
  const auto work = peer->launch(all_reduce(tensor, tensor));
  ASSERT_TRUE(work.ok());
  EXPECT_TRUE(ends_with(*work, Status::kNotConnected));
  EXPECT_EQ(peer->view(), nullptr);
}

TEST(Communicator, BadOptionsSayWhatIsAllowed) {
  const auto says = [](const CommunicatorOptions& options, std::string_view what) {
    const auto made = Communicator::create(options);
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().text.find(what), std::string::npos) << made.error().text;
  };
  CommunicatorOptions options;
  options.peer.name = std::string(1000, 'n');
  says(options, "options.name is 1000 bytes long; allowed: at most 64");
  options = {};
  options.peer.first_port = 5000;
  options.peer.last_port = 4000;
  says(options, "options.last_port is 4000; allowed: first_port (5000) to 65535");
  options = {};
  options.peer.stripes = 0;
  says(options, "options.stripes is 0; allowed: 1 to 128");
  options = {};
  options.listen_host = "no-such-host.invalid";
  says(options, "cannot resolve 'no-such-host.invalid'");
}

// Many threads launch, wait and stop at the same time; each call ends once, with the right sum (for the thread
// sanitizer).
TEST(Communicator, ManyThreadsLaunchAtOnce) {
  Party run(2);
  constexpr std::uint64_t kThreads = 4;
  constexpr int kRounds = 50;
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    for (auto& peer : run.peers) {
      threads.emplace_back([&, t] {
        std::vector<float> send(100, 1.0F);
        std::vector<float> recv(100);
        for (int i = 0; i < kRounds; ++i) {
          const auto work = peer->launch(all_reduce(send, recv, t));
          if (!work.ok() || !work->wait(kLong)) return;
          if (work->outcome().status == Status::kOk && recv == std::vector<float>(100, 2.0F)) ++good;
          static_cast<void>(peer->pending());
          static_cast<void>(peer->view());
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, static_cast<int>(2 * kThreads) * kRounds);
  EXPECT_EQ(run.peers[0]->footprint().machine.calls, 0U);
}

// ---- blocking callers, which run the engine themselves if no other thread does ----

// Values whose sum depends on every term, down to the last bit.
std::vector<float> terms(std::size_t count, std::uint64_t seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = 1.0F / static_cast<float>(3 + i + 7 * seed);
  return values;
}

std::vector<float> sum(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> values(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) values[i] = a[i] + b[i];
  return values;
}

// Blocks like the functions of the C interface.
Status blocking(Communicator& peer, const LaunchArgs& args) {
  const auto work = peer.launch(args, Communicator::Then::kWait);
  if (!work.ok()) return work.error().status;
  work->wait();
  return work->outcome().status;
}

// Every thread blocks in calls of its own tag; some threads have a second call in flight.
TEST(Communicator, ManyThreadsBlockAtOnce) {
  Party run(2);
  constexpr std::uint64_t kThreads = 3;
  constexpr std::uint64_t kRounds = 40;
  std::atomic<std::uint64_t> good{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    for (std::uint64_t p = 0; p < 2; ++p) {
      threads.emplace_back([&, t, p] {
        Communicator& peer = *run.peers[p];
        for (std::uint64_t i = 0; i < kRounds; ++i) {
          const std::size_t count = 1 + (i * 37) % 5000;
          const std::uint64_t seed = 2 * (i * kThreads + t);
          const std::vector<float> send = terms(count, seed + p);
          const std::vector<float> expected = sum(terms(count, seed), terms(count, seed + 1));
          std::vector<float> recv(count);
          std::vector<float> also(count);
          std::optional<Result<Work>> meanwhile;
          if ((i + t) % 2 == 0) meanwhile = peer.launch(all_reduce(send, also, 100 + t));
          if (blocking(peer, all_reduce(send, recv, t)) != Status::kOk || recv != expected) return;
          if (meanwhile) {
            if (!meanwhile->ok()) return;
            (*meanwhile)->wait();
            if ((*meanwhile)->outcome().status != Status::kOk || also != expected) return;
          }
          ++good;
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 2 * kThreads * kRounds);
  EXPECT_EQ(run.peers[0]->footprint().machine.calls, 0U);
}

TEST(Communicator, BlockingCallsContinueWhileAnotherCallIsStopped) {
  Party run(2);
  constexpr std::uint64_t kRounds = 30;
  const std::vector<float> send = terms(1000, 0);
  std::vector<float> never(1000);
  std::thread partner([&] {
    for (std::uint64_t i = 0; i < kRounds; ++i) {
      const std::vector<float> mine = terms(1000, 2 * i + 1);
      std::vector<float> recv(1000);
      EXPECT_EQ(blocking(*run.peers[1], all_reduce(mine, recv, 1)), Status::kOk);
      EXPECT_EQ(recv, sum(terms(1000, 2 * i), mine));
    }
  });
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const auto alone = run.peers[0]->launch(all_reduce(send, never, 1000 + i));  // the partner never launches this call
    ASSERT_TRUE(alone.ok());
    std::thread other([&] { run.peers[0]->stop(*alone, "changed our mind"); });
    const std::vector<float> mine = terms(1000, 2 * i);
    std::vector<float> recv(1000);
    EXPECT_EQ(blocking(*run.peers[0], all_reduce(mine, recv, 1)), Status::kOk);
    EXPECT_EQ(recv, sum(mine, terms(1000, 2 * i + 1)));
    EXPECT_TRUE(ends_with(*alone, Status::kAborted));
    other.join();
  }
  partner.join();
}

TEST(Communicator, ABlockingCallCanBeStoppedByAnotherThread) {
  Party run(2);
  const std::vector<float> send = terms(1000, 0);
  std::vector<float> recv(1000);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const auto alone = run.peers[0]->launch(all_reduce(send, recv, i), Communicator::Then::kWait);
    ASSERT_TRUE(alone.ok());
    std::thread other([&] { run.peers[0]->stop(*alone, "changed our mind"); });
    std::thread third([&] { alone->wait(); });
    alone->wait();
    EXPECT_TRUE(ends_with(*alone, Status::kAborted));
    other.join();
    third.join();
  }
}

TEST(Communicator, ABlockingCallThatIsStoppedMidwayEndsEquallyOnBothPeers) {
  Party run(2);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const std::vector<std::vector<float>> send{terms(20'000, 2 * i), terms(20'000, 2 * i + 1)};
    std::vector<std::vector<float>> recv(2, std::vector<float>(20'000));
    const auto a = run.peers[0]->launch(all_reduce(send[0], recv[0], i), Communicator::Then::kWait);
    ASSERT_TRUE(a.ok());
    Status at_b = Status::kInternal;
    std::thread partner([&] { at_b = blocking(*run.peers[1], all_reduce(send[1], recv[1], i)); });
    std::thread other([&] { run.peers[0]->stop(*a, "changed our mind"); });
    a->wait();
    other.join();
    partner.join();
    EXPECT_EQ(at_b, a->outcome().status) << a->outcome().text;
    if (at_b != Status::kOk) {
      EXPECT_EQ(at_b, Status::kAborted);
      continue;
    }
    EXPECT_EQ(recv[0], sum(send[0], send[1]));
    EXPECT_EQ(recv[1], recv[0]);
  }
}

// Whether the engine's thread or the caller runs the engine.
TEST(Communicator, ALackOfMemoryEndsABlockingCall) {
  for (int i = 0; i < 20; ++i) {
    std::atomic<bool> empty{false};
    auto options = founders(1);
    options.journal = [&](std::string_view) {
      if (empty) throw std::bad_alloc();
    };
    const auto peer = create(std::move(options));
    const std::vector<float> send = terms(10, 0);
    std::vector<float> recv(10);
    EXPECT_EQ(blocking(*peer, all_reduce(send, recv)), Status::kNotConnected);
    empty = true;
    EXPECT_EQ(blocking(*peer, all_reduce(send, recv)), Status::kOutOfMemory);
    empty = false;
    EXPECT_EQ(blocking(*peer, all_reduce(send, recv)), Status::kOutOfMemory) << "it has left the run";
  }
}

// A refused call is over at once. It affects no other call: those launched before it are still in flight.
TEST(Communicator, SettleWaitsUntilEarlierCallsHaveBegun) {
  Party run(1);
  Communicator& peer = *run.peers.front();
  LaunchArgs args;
  args.collective = wire::Collective::kSync;
  args.state = std::make_shared<state::Statement>();
  std::vector<Work> works;
  for (std::uint64_t tag = 0; tag < 200; ++tag) {  // more than one turn of the engine
    args.tag = Tag{tag};
    const auto work = peer.publish(args, true);
    ASSERT_TRUE(work.ok()) << work.error().text;
    works.push_back(*work);
  }
  peer.settle();
  for (std::size_t i = 0; i < works.size(); ++i) {
    const bool refused = i >= kMaxShares;
    ASSERT_EQ(works[i].test(), refused) << i;
    EXPECT_TRUE(!refused || ends_with(works[i], Status::kTooManyInFlight)) << i;
  }
}

}  // namespace
}  // namespace lockstep::transport
