// One thread and some callers take turns at an io_context. Nothing here depends on who is faster: an empty seat may
// become the thread's at any moment, so where that matters no thread is about, or both orders are right.
#include "transport/seat.h"

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

// Time for a thread that is wrong to show itself. One that is right never does, however long this is.
constexpr std::chrono::milliseconds kMoment(20);

class SeatTest : public ::testing::Test {
 protected:
  // The thread comes back, elsewhere; what it was told.
  std::future<bool> come_back() {
    return std::async(std::launch::async, [this] { return seat.come_back(); });
  }

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard = asio::make_work_guard(io);
  Seat seat{io};
};

TEST_F(SeatTest, TheThreadSitsFirstAndNobodyElse) {
  EXPECT_FALSE(seat.sit_down());
  EXPECT_TRUE(seat.step_aside());
  EXPECT_TRUE(seat.sit_down());
}

TEST_F(SeatTest, ACallerRunsWhatIsPostedAndNoOtherCallerDoes) {
  ASSERT_TRUE(seat.step_aside());
  std::thread::id ran_on;
  seat.post(Seat::Wake::kNobody, [&] { ran_on = std::this_thread::get_id(); });
  ASSERT_TRUE(seat.sit_down());
  EXPECT_FALSE(std::async(std::launch::async, [&] { return seat.sit_down(); }).get());
  EXPECT_EQ(io.run_one(), 1U);
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  seat.leave(false);
  EXPECT_TRUE(seat.sit_down()) << "the next caller";
}

TEST_F(SeatTest, WhatIsPostedWhileACallerSitsWakesThatCaller) {
  ASSERT_TRUE(seat.step_aside());
  ASSERT_TRUE(seat.sit_down());
  bool ran = false;
  std::thread other([&] { seat.post(Seat::Wake::kWhoeverSits, [&] { ran = true; }); });
  EXPECT_EQ(io.run_one(), 1U);
  EXPECT_TRUE(ran);
  other.join();
  seat.leave(false);
  EXPECT_TRUE(seat.sit_down()) << "the thread was not called";
}

TEST_F(SeatTest, TheThreadDoesNotStepAsideFromWhatIsPosted) {
  for (const auto wake : {Seat::Wake::kNobody, Seat::Wake::kWhoeverSits}) {
    seat.post(wake, [] {});
    EXPECT_FALSE(seat.step_aside());
    EXPECT_EQ(io.run_one(), 1U);
  }
  EXPECT_TRUE(seat.step_aside());
}

TEST_F(SeatTest, AHandlerMayPostAndIsNotPostedItselfAnyMore) {
  seat.post(Seat::Wake::kWhoeverSits, [this] {
    seat.post(Seat::Wake::kWhoeverSits, [this] { EXPECT_TRUE(seat.step_aside()); });
    EXPECT_FALSE(seat.step_aside());
  });
  EXPECT_EQ(io.run_one(), 1U);
  EXPECT_EQ(io.run_one(), 1U);
  EXPECT_TRUE(seat.sit_down());
}

TEST_F(SeatTest, ACallerThatLeavesWorkBehindLeavesItToTheThread) {
  ASSERT_TRUE(seat.step_aside());
  ASSERT_TRUE(seat.sit_down());
  auto back = come_back();
  seat.leave(true);
  EXPECT_FALSE(seat.sit_down()) << "it is the thread's, even if it has not come yet";
  EXPECT_TRUE(back.get());
  EXPECT_FALSE(seat.sit_down());
}

TEST_F(SeatTest, WhatIsPostedAndNotRunIsLeftToTheThread) {
  ASSERT_TRUE(seat.step_aside());
  ASSERT_TRUE(seat.sit_down());
  seat.post(Seat::Wake::kNobody, [] {});
  seat.leave(false);
  EXPECT_FALSE(seat.sit_down());
  EXPECT_TRUE(seat.come_back());
  EXPECT_FALSE(seat.step_aside());
}

TEST_F(SeatTest, PostingToAnEmptySeatBringsTheThread) {
  ASSERT_TRUE(seat.step_aside());
  auto back = come_back();
  seat.post(Seat::Wake::kWhoeverSits, [] {});
  EXPECT_FALSE(seat.sit_down());
  EXPECT_TRUE(back.get());
  EXPECT_FALSE(seat.step_aside());
}

TEST_F(SeatTest, APosterWhoComesHimselfFindsTheSeatEmpty) {
  ASSERT_TRUE(seat.step_aside());
  seat.post(Seat::Wake::kNobody, [] {});
  EXPECT_TRUE(seat.sit_down());
}

TEST_F(SeatTest, AnEmptySeatBecomesTheThreadsByItself) {
  for (int again = 0; again < 3; ++again) {
    ASSERT_TRUE(seat.step_aside());
    EXPECT_TRUE(seat.come_back());
    EXPECT_FALSE(seat.sit_down());
  }
}

TEST_F(SeatTest, TheThreadDoesNotComeBackWhileACallerSits) {
  ASSERT_TRUE(seat.step_aside());
  ASSERT_TRUE(seat.sit_down());
  auto back = come_back();
  EXPECT_EQ(back.wait_for(kMoment), std::future_status::timeout);
  seat.leave(false);
  EXPECT_TRUE(back.get());
}

TEST_F(SeatTest, NobodySitsDownOnceItIsClosed) {
  seat.close();
  EXPECT_FALSE(seat.sit_down());
  EXPECT_FALSE(seat.step_aside());
  EXPECT_FALSE(seat.come_back());
  EXPECT_FALSE(seat.sit_down());
}

TEST_F(SeatTest, ACallerThatClosesAndLeavesSendsTheThreadHome) {
  ASSERT_TRUE(seat.step_aside());
  ASSERT_TRUE(seat.sit_down());
  seat.close();
  seat.leave(false);
  EXPECT_FALSE(seat.sit_down());
  EXPECT_FALSE(seat.come_back());
}

// What the caller turns must not be taken down under its hands.
TEST_F(SeatTest, OnceClosedTheThreadGoesHomeWhenTheCallerHasLeft) {
  ASSERT_TRUE(seat.step_aside());
  ASSERT_TRUE(seat.sit_down());
  auto back = come_back();
  EXPECT_EQ(back.wait_for(kMoment), std::future_status::timeout) << "it waits";
  seat.close();
  EXPECT_EQ(back.wait_for(kMoment), std::future_status::timeout) << "and goes on waiting";
  seat.leave(false);
  EXPECT_FALSE(back.get());
  EXPECT_FALSE(seat.sit_down());
}

TEST_F(SeatTest, AThreadThatComesBackToAClosedSeatWaitsForTheCallerToo) {
  ASSERT_TRUE(seat.step_aside());
  ASSERT_TRUE(seat.sit_down());
  seat.close();
  auto back = come_back();
  EXPECT_EQ(back.wait_for(kMoment), std::future_status::timeout);
  seat.leave(true);
  EXPECT_FALSE(back.get());
}

// Callers that wait, callers that sleep and a thread, on one machine without a lock (for the thread sanitizer):
// everything that is posted runs once, and never two at once.
TEST_F(SeatTest, ManyCallersAndTheThreadTakeTurns) {
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
        if (seat.step_aside()) break;
      }
    } while (seat.come_back());
  });
  std::vector<std::thread> callers;
  callers.reserve(kCallers);
  for (int c = 0; c < kCallers; ++c) {
    callers.emplace_back([&, c] {
      for (int i = 0; i < kRounds; ++i) {
        const auto call = std::make_shared<Call>(CallId{1});
        const bool sleeps = (i + c) % 3 == 0;
        seat.post(sleeps ? Seat::Wake::kWhoeverSits : Seat::Wake::kNobody, [&turn, call] { turn(*call); });
        if (!sleeps && !call->over() && seat.sit_down()) {
          while (!call->over()) io.run_one();
          seat.leave(i % 5 == 0);
        }
        call->wait(std::nullopt);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  seat.post(Seat::Wake::kWhoeverSits, [this] {
    seat.close();
    io.stop();
  });
  thread.join();
  EXPECT_EQ(turns, kCallers * kRounds);
  EXPECT_EQ(together, 0);
  EXPECT_FALSE(seat.sit_down());
}

}  // namespace
}  // namespace lockstep::transport
