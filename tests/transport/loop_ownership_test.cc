// One thread and some callers take turns at an io_context. No test depends on which thread is faster. The thread may
// take an unowned loop at any moment; so either no thread is running where that matters, or both orders are correct.
#include "transport/loop_ownership.h"

#include <gtest/gtest.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "transport/call.h"

namespace lockstep::transport {
namespace {

// The time in which a wrong thread would show its error. A correct thread passes however long this time is.
constexpr std::chrono::milliseconds kMoment(20);

class LoopOwnershipTest : public ::testing::Test {
 protected:
  // Reclaims the loop on another thread; returns the result of reclaim().
  std::future<bool> reclaim() {
    return std::async(std::launch::async, [this] { return ownership.reclaim(); });
  }

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard = asio::make_work_guard(io);
  LoopOwnership ownership{io};
};

TEST_F(LoopOwnershipTest, TheThreadOwnsTheLoopFirst) {
  EXPECT_FALSE(ownership.acquire());
  EXPECT_TRUE(ownership.yield());
  EXPECT_TRUE(ownership.acquire());
}

TEST_F(LoopOwnershipTest, ACallerRunsPostedHandlersAndExcludesOtherCallers) {
  ASSERT_TRUE(ownership.yield());
  std::thread::id ran_on;
  ownership.post(LoopOwnership::Wake::kNone, [&] { ran_on = std::this_thread::get_id(); });
  ASSERT_TRUE(ownership.acquire());
  EXPECT_FALSE(std::async(std::launch::async, [&] { return ownership.acquire(); }).get());
  EXPECT_EQ(io.run_one(), 1U);
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  ownership.release(false);
  EXPECT_TRUE(ownership.acquire()) << "the next caller";
}

TEST_F(LoopOwnershipTest, APostWakesTheCallerThatOwnsTheLoop) {
  ASSERT_TRUE(ownership.yield());
  ASSERT_TRUE(ownership.acquire());
  bool ran = false;
  std::thread other([&] { ownership.post(LoopOwnership::Wake::kOwner, [&] { ran = true; }); });
  EXPECT_EQ(io.run_one(), 1U);
  EXPECT_TRUE(ran);
  other.join();
  ownership.release(false);
  EXPECT_TRUE(ownership.acquire()) << "the thread was not called";
}

TEST_F(LoopOwnershipTest, TheThreadDoesNotYieldWhileAHandlerIsPosted) {
  for (const auto wake : {LoopOwnership::Wake::kNone, LoopOwnership::Wake::kOwner}) {
    ownership.post(wake, [] {});
    EXPECT_FALSE(ownership.yield());
    EXPECT_EQ(io.run_one(), 1U);
  }
  EXPECT_TRUE(ownership.yield());
}

TEST_F(LoopOwnershipTest, ARunningHandlerDoesNotCountAsPosted) {
  ownership.post(LoopOwnership::Wake::kOwner, [this] {
    ownership.post(LoopOwnership::Wake::kOwner, [this] { EXPECT_TRUE(ownership.yield()); });
    EXPECT_FALSE(ownership.yield());
  });
  EXPECT_EQ(io.run_one(), 1U);
  EXPECT_EQ(io.run_one(), 1U);
  EXPECT_TRUE(ownership.acquire());
}

TEST_F(LoopOwnershipTest, TheThreadGetsTheLoopWhenACallerLeavesWork) {
  ASSERT_TRUE(ownership.yield());
  ASSERT_TRUE(ownership.acquire());
  auto back = reclaim();
  ownership.release(true);
  EXPECT_FALSE(ownership.acquire()) << "the loop belongs to the thread, which may not have taken it yet";
  EXPECT_TRUE(back.get());
  EXPECT_FALSE(ownership.acquire());
}

TEST_F(LoopOwnershipTest, TheThreadGetsHandlersThatTheCallerDidNotRun) {
  ASSERT_TRUE(ownership.yield());
  ASSERT_TRUE(ownership.acquire());
  ownership.post(LoopOwnership::Wake::kNone, [] {});
  ownership.release(false);
  EXPECT_FALSE(ownership.acquire());
  EXPECT_TRUE(ownership.reclaim());
  EXPECT_FALSE(ownership.yield());
}

TEST_F(LoopOwnershipTest, APostWithoutAnOwnerWakesTheThread) {
  ASSERT_TRUE(ownership.yield());
  auto back = reclaim();
  ownership.post(LoopOwnership::Wake::kOwner, [] {});
  EXPECT_FALSE(ownership.acquire());
  EXPECT_TRUE(back.get());
  EXPECT_FALSE(ownership.yield());
}

TEST_F(LoopOwnershipTest, APostThatWakesNobodyLeavesTheLoopFree) {
  ASSERT_TRUE(ownership.yield());
  ownership.post(LoopOwnership::Wake::kNone, [] {});
  EXPECT_TRUE(ownership.acquire());
}

TEST_F(LoopOwnershipTest, TheThreadIsCalledWhereNobodyOwnsTheLoop) {
  ASSERT_TRUE(ownership.yield());
  ownership.call_thread();
  EXPECT_FALSE(ownership.acquire());
  EXPECT_TRUE(ownership.reclaim());
  ASSERT_TRUE(ownership.yield());
  ASSERT_TRUE(ownership.acquire());
  ownership.call_thread();  // the owner goes on
  ownership.release(false);
  EXPECT_TRUE(ownership.acquire());
}

TEST_F(LoopOwnershipTest, TheThreadReclaimsAnUnownedLoopAfterAMoment) {
  for (int again = 0; again < 3; ++again) {
    ASSERT_TRUE(ownership.yield());
    EXPECT_TRUE(ownership.reclaim());
    EXPECT_FALSE(ownership.acquire());
  }
}

TEST_F(LoopOwnershipTest, TheThreadDoesNotReclaimTheLoopFromACaller) {
  ASSERT_TRUE(ownership.yield());
  ASSERT_TRUE(ownership.acquire());
  auto back = reclaim();
  EXPECT_EQ(back.wait_for(kMoment), std::future_status::timeout);
  ownership.release(false);
  EXPECT_TRUE(back.get());
}

TEST_F(LoopOwnershipTest, AClosedLoopCannotBeAcquired) {
  ownership.close();
  EXPECT_FALSE(ownership.acquire());
  EXPECT_FALSE(ownership.yield());
  EXPECT_FALSE(ownership.reclaim());
  EXPECT_FALSE(ownership.acquire());
}

TEST_F(LoopOwnershipTest, ReclaimReturnsFalseAfterACallerClosedTheLoop) {
  ASSERT_TRUE(ownership.yield());
  ASSERT_TRUE(ownership.acquire());
  ownership.close();
  ownership.release(false);
  EXPECT_FALSE(ownership.acquire());
  EXPECT_FALSE(ownership.reclaim());
}

// Otherwise the thread could destroy the engine while the caller runs it.
TEST_F(LoopOwnershipTest, ReclaimOfAClosedLoopWaitsForTheCaller) {
  ASSERT_TRUE(ownership.yield());
  ASSERT_TRUE(ownership.acquire());
  auto back = reclaim();
  EXPECT_EQ(back.wait_for(kMoment), std::future_status::timeout) << "the loop is open";
  ownership.close();
  EXPECT_EQ(back.wait_for(kMoment), std::future_status::timeout) << "the loop is closed, but the caller still owns it";
  ownership.release(false);
  EXPECT_FALSE(back.get());
  EXPECT_FALSE(ownership.acquire());
}

TEST_F(LoopOwnershipTest, ReclaimAfterCloseWaitsForTheCallerThatOwnsTheLoop) {
  ASSERT_TRUE(ownership.yield());
  ASSERT_TRUE(ownership.acquire());
  ownership.close();
  auto back = reclaim();
  EXPECT_EQ(back.wait_for(kMoment), std::future_status::timeout);
  ownership.release(true);
  EXPECT_FALSE(back.get());
}

// Waiting callers, sleeping callers and a thread share one machine without a lock (for the thread sanitizer): every
// posted handler runs once, and no two run at the same time.
TEST_F(LoopOwnershipTest, ManyCallersAndTheThreadTakeTurns) {
  constexpr int kCallers = 4;
  constexpr int kRounds = 300;
  int turns = 0;  // the machine
  std::atomic<int> inside{0};
  std::atomic<int> together{0};
  const auto turn = [&](Call& call) {
    if (inside.fetch_add(1) != 0) ++together;
    ++turns;
    inside.fetch_sub(1);
    call.complete({});
  };

  std::thread thread([&] {
    do {
      while (io.run_one() > 0) {
        if (ownership.yield()) break;
      }
    } while (ownership.reclaim());
  });
  std::vector<std::thread> callers;
  callers.reserve(kCallers);
  for (int c = 0; c < kCallers; ++c) {
    callers.emplace_back([&, c] {
      for (int i = 0; i < kRounds; ++i) {
        const auto call = std::make_shared<Call>(CallId{1});
        const bool sleeps = (i + c) % 3 == 0;
        ownership.post(sleeps ? LoopOwnership::Wake::kOwner : LoopOwnership::Wake::kNone,
                       [&turn, call] { turn(*call); });
        if (!sleeps && !call->over() && ownership.acquire()) {
          while (!call->over()) io.run_one();
          ownership.release(i % 5 == 0);
        }
        call->wait(std::nullopt);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  ownership.post(LoopOwnership::Wake::kOwner, [this] {
    ownership.close();
    io.stop();
  });
  thread.join();
  EXPECT_EQ(turns, kCallers * kRounds);
  EXPECT_EQ(together, 0);
  EXPECT_FALSE(ownership.acquire());
}

}  // namespace
}  // namespace lockstep::transport
