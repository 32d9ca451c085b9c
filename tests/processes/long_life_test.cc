// Two communicators live through tens of thousands of calls and some hundred views, on real sockets: memory and descriptors of the
// process stay what they were.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/sanitized.h"
#include "transport/communicator.h"
#include "transport/coordinator_server.h"

namespace lockstep::transport {
namespace {

constexpr Duration kLong = seconds(30);

// Of this process, in KiB.
std::int64_t resident() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::int64_t kib = 0;
  while (status >> word) {
    if (word == "VmRSS:") status >> kib;
  }
  return kib;
}

std::ptrdiff_t descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator{});
}

std::unique_ptr<Communicator> create(std::uint32_t founders) {
  CommunicatorOptions options;
  options.listen_host = "127.0.0.1";
  options.founders = founders;
  auto made = Communicator::create(std::move(options));
  EXPECT_TRUE(made.ok()) << made.error().text;
  return std::move(*made);
}

void expect_ok(const Work& work) {
  ASSERT_TRUE(work.wait(kLong)) << "the call does not end";
  ASSERT_EQ(work.outcome().status, Status::kOk) << work.outcome().text;
}

class LongLifeOfProcesses : public ::testing::Test {
 protected:
  LongLifeOfProcesses() {
    CoordinatorServer::Options options;
    options.listen = "127.0.0.1:0";
    auto started = CoordinatorServer::start(std::move(options));
    EXPECT_TRUE(started.ok()) << started.error().text;
    server_ = std::move(*started);
    std::vector<Work> works;
    for (int i = 0; i < 2; ++i) peers_.push_back(create(2));
    for (auto& peer : peers_) works.push_back(peer->connect(server_->address().text(), kLong));
    for (const Work& work : works) expect_ok(work);
  }

  // Each of them under a tag of its own, some at a time.
  void reduce(std::uint64_t calls) {
    while (calls > 0) {
      const std::uint64_t batch = std::min(calls, kCallsAtOnce);
      ASSERT_NO_FATAL_FAILURE(reduce_at_once(batch));
      calls -= batch;
    }
  }

  void reduce_at_once(std::uint64_t calls) {
    std::vector<std::vector<float>> tensors(calls * peers_.size(), std::vector<float>(8, 1.0F));
    std::vector<Work> works;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      LaunchArgs args;
      args.collective = wire::Collective::kAllReduce;
      args.type = DataType::kF32;
      args.tag = Tag{tag_ + i % calls};
      args.tensors.push_back({tensors[i].data(), tensors[i].data(), tensors[i].size(), 0});
      const auto work = peers_[i / calls]->launch(args);
      ASSERT_TRUE(work.ok()) << work.error().text;
      works.push_back(*work);
    }
    for (const Work& work : works) ASSERT_NO_FATAL_FAILURE(expect_ok(work));
    for (const auto& tensor : tensors) ASSERT_EQ(tensor.back(), static_cast<float>(peers_.size()));
    tag_ += calls;
  }

  // A third one comes, takes part, and leaves.
  void visit() {
    auto guest = create(2);
    const Work joins = guest->connect(server_->address().text(), kLong);
    const Instant patience = lockstep::testing::monotonic_now() + kLong;
    while (peers_[0]->pending() == 0) {
      ASSERT_LT(lockstep::testing::monotonic_now(), patience) << "nobody says that a guest waits";
      std::this_thread::yield();
    }
    std::vector<Work> works = {peers_[0]->admit(1, kLong), peers_[1]->admit(1, kLong)};
    for (const Work& work : works) ASSERT_NO_FATAL_FAILURE(expect_ok(work));
    ASSERT_NO_FATAL_FAILURE(expect_ok(joins));
    peers_.push_back(std::move(guest));
    ASSERT_NO_FATAL_FAILURE(reduce(3));
    ASSERT_NO_FATAL_FAILURE(expect_ok(peers_.back()->leave(kLong)));
    peers_.pop_back();
  }

  void live(int visits) {
    for (; visits > 0; --visits) {
      ASSERT_NO_FATAL_FAILURE(reduce(kCallsPerVisit));
      ASSERT_NO_FATAL_FAILURE(visit());
    }
  }

  static constexpr std::uint64_t kCallsPerVisit = kSanitized ? 20 : 500;
  static constexpr std::uint64_t kCallsAtOnce = 10;
  std::unique_ptr<CoordinatorServer> server_;
  std::vector<std::unique_ptr<Communicator>> peers_;
  std::uint64_t tag_ = 0;
};

TEST_F(LongLifeOfProcesses, TakesNoMoreMemoryAndDescriptorsThanAShortOne) {
  constexpr std::int64_t kSlackKiB = std::int64_t{6} * 1024;  // the allocator's
  ASSERT_NO_FATAL_FAILURE(live(20));
  ASSERT_NO_FATAL_FAILURE(reduce(1));
  const std::int64_t memory = resident();
  const std::ptrdiff_t open = descriptors();
  ASSERT_NO_FATAL_FAILURE(live(kSanitized ? 20 : 80));
  ASSERT_NO_FATAL_FAILURE(reduce(1));
  const Instant patience = lockstep::testing::monotonic_now() + kLong;
  while (descriptors() > open &&
         lockstep::testing::monotonic_now() < patience) {  // the last guest's are on their way out
    std::this_thread::yield();
  }
  EXPECT_LE(descriptors(), open);
  if (!kSanitized) {
    EXPECT_LE(resident(), memory + kSlackKiB);
  }
}

}  // namespace
}  // namespace lockstep::transport
