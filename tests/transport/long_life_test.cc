// Two communicators live through tens of thousands of calls and a hundred views, on real sockets: memory and descriptors of the
// process stay what they were.
#include <gtest/gtest.h>

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

class LongLife : public ::testing::Test {
 protected:
  LongLife() {
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

  // Each of them under a tag of its own.
  void reduce(std::uint64_t calls) {
    std::vector<std::vector<float>> tensors(peers_.size(), std::vector<float>(8));
    for (; calls > 0; --calls) {
      std::vector<Work> works;
      for (std::size_t i = 0; i < peers_.size(); ++i) {
        tensors[i].assign(8, 1.0F);
        LaunchArgs args;
        args.collective = wire::Collective::kAllReduce;
        args.type = DataType::kF32;
        args.tag = Tag{tag_};
        args.tensors.push_back({tensors[i].data(), tensors[i].data(), tensors[i].size(), 0});
        const auto work = peers_[i]->launch(args);
        ASSERT_TRUE(work.ok());
        works.push_back(*work);
      }
      for (const Work& work : works) ASSERT_NO_FATAL_FAILURE(expect_ok(work));
      ASSERT_EQ(tensors[0][7], static_cast<float>(peers_.size()));
      ++tag_;
    }
  }

  // A third one comes, takes part, and leaves.
  void visit() {
    auto guest = create(2);
    const Work joins = guest->connect(server_->address().text(), kLong);
    while (peers_[0]->pending() == 0) std::this_thread::yield();
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

  static constexpr std::uint64_t kCallsPerVisit = kSanitized ? 20 : 250;
  std::unique_ptr<CoordinatorServer> server_;
  std::vector<std::unique_ptr<Communicator>> peers_;
  std::uint64_t tag_ = 0;
};

TEST_F(LongLife, TakesNoMoreMemoryAndDescriptorsThanAShortOne) {
  constexpr std::int64_t kSlackKiB = 6 * 1024;  // the allocator's
  ASSERT_NO_FATAL_FAILURE(live(20));
  ASSERT_NO_FATAL_FAILURE(reduce(1));
  const std::int64_t memory = resident();
  const std::ptrdiff_t open = descriptors();
  ASSERT_NO_FATAL_FAILURE(live(kSanitized ? 20 : 80));
  ASSERT_NO_FATAL_FAILURE(reduce(1));
  EXPECT_LE(descriptors(), open);
  if (!kSanitized) {
    EXPECT_LE(resident(), memory + kSlackKiB);
  }
}

}  // namespace
}  // namespace lockstep::transport
